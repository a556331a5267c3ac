#include "backend/cpu/norm/norm_kernel.h"
#include "backend/cpu/simd/avx512.h"

namespace sluice::cpu {

const NormKernels kAvx512NormKernels = {&NormKernel<avx512::F32x16>::Norm,
                                        &NormKernel<avx512::F32x16>::QkNorm};

}  // namespace sluice::cpu
