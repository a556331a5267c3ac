#include "backend/cpu/sampling/sampling_kernel.h"
#include "backend/cpu/simd/avx512.h"

namespace sluice::cpu {

const SamplingKernels kAvx512SamplingKernels =
    SamplingKernel<avx512::F32x16, avx512::F64x16>::Table();

}  // namespace sluice::cpu
