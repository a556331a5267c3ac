#include "backend/cpu/activation/activation_kernel.h"
#include "backend/cpu/simd/avx512.h"

namespace sluice::cpu {

using Kernel = ActivationKernel<avx512::F32x16>;

const ActivationKernels kAvx512ActivationKernels = {
    {&Kernel::Gated<&Kernel::SiluOf>, &Kernel::Plain<&Kernel::SiluOf>},
    {&Kernel::Gated<&Kernel::GeluTanhOf>, &Kernel::Plain<&Kernel::GeluTanhOf>},
    {&Kernel::Gated<&Kernel::GeluErfOf>, &Kernel::Plain<&Kernel::GeluErfOf>},
    {&Kernel::Gated<&Kernel::ReluSquaredOf>, &Kernel::Plain<&Kernel::ReluSquaredOf>},
    &Kernel::SoftCap};

}  // namespace sluice::cpu
