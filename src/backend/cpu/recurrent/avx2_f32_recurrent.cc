#include "backend/cpu/recurrent/recurrent_kernel.h"
#include "backend/cpu/recurrent/selective_scan_kernel.h"
#include "backend/cpu/recurrent/ssd_kernel.h"
#include "backend/cpu/simd/avx2.h"

namespace sluice::cpu {

const RecurrentKernels kAvx2RecurrentKernels = {
    &ShortConvKernel<avx2::F32x16>::Run, &GatedDeltaKernel<avx2::F32x16>::Run,
    &SsdKernel<avx2::F32x16>::Run, &SelectiveScanKernel<avx2::F32x16>::Run};

}  // namespace sluice::cpu
