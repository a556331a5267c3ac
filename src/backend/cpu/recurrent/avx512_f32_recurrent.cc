#include "backend/cpu/recurrent/recurrent_kernel.h"
#include "backend/cpu/recurrent/selective_scan_kernel.h"
#include "backend/cpu/recurrent/ssd_kernel.h"
#include "backend/cpu/simd/avx512.h"

namespace sluice::cpu {

const RecurrentKernels kAvx512RecurrentKernels = {
    &ShortConvKernel<avx512::F32x16>::Run, &GatedDeltaKernel<avx512::F32x16>::Run,
    &SsdKernel<avx512::F32x16>::Run, &SelectiveScanKernel<avx512::F32x16>::Run};

}  // namespace sluice::cpu
