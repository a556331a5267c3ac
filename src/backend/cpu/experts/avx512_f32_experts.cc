#include "backend/cpu/experts/experts_kernel.h"
#include "backend/cpu/simd/avx512.h"

namespace sluice::cpu {

const ExpertsKernels kAvx512ExpertsKernels = {&ExpertsKernel<avx512::F32x16>::Combine};

}  // namespace sluice::cpu
