#include "backend/cpu/sampling/sampling_kernel.h"
#include "backend/cpu/simd/avx2.h"

namespace sluice::cpu {

const SamplingKernels kAvx2SamplingKernels = SamplingKernel<avx2::F32x16, avx2::F64x16>::Table();

}  // namespace sluice::cpu
