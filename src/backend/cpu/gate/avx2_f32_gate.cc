#include "backend/cpu/gate/gate_kernel.h"
#include "backend/cpu/simd/avx2.h"

namespace sluice::cpu {

const GateKernels kAvx2GateKernels = {&GateKernel<avx2::F32x16>::GatedNorm,
                                      &GateKernel<avx2::F32x16>::SigmoidGate,
                                      &GateKernel<avx2::F32x16>::ScaleAdd};

}  // namespace sluice::cpu
