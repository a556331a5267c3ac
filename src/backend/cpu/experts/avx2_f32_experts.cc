#include "backend/cpu/experts/experts_kernel.h"
#include "backend/cpu/simd/avx2.h"

namespace sluice::cpu {

const ExpertsKernels kAvx2ExpertsKernels = {&ExpertsKernel<avx2::F32x16>::Combine};

}  // namespace sluice::cpu
