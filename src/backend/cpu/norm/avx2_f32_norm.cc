#include "backend/cpu/norm/norm_kernel.h"
#include "backend/cpu/simd/avx2.h"

namespace sluice::cpu {

const NormKernels kAvx2NormKernels = {&NormKernel<avx2::F32x16>::Norm,
                                      &NormKernel<avx2::F32x16>::QkNorm};

}  // namespace sluice::cpu
