#include "backend/cpu/gate/gate_kernel.h"
#include "backend/cpu/simd/avx512.h"

namespace sluice::cpu {

const GateKernels kAvx512GateKernels = {&GateKernel<avx512::F32x16>::GatedNorm,
                                        &GateKernel<avx512::F32x16>::SigmoidGate,
                                        &GateKernel<avx512::F32x16>::ScaleAdd};

}  // namespace sluice::cpu
