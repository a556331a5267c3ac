#include "backend/cpu/activation/activation_kernel.h"
#include "backend/cpu/simd/avx2.h"

namespace sluice::cpu {

using Kernel = ActivationKernel<avx2::F32x16>;

const ActivationKernels kAvx2ActivationKernels = {
    {&Kernel::Gated<&Kernel::SiluOf>, &Kernel::Plain<&Kernel::SiluOf>},
    {&Kernel::Gated<&Kernel::GeluTanhOf>, &Kernel::Plain<&Kernel::GeluTanhOf>},
    {&Kernel::Gated<&Kernel::GeluErfOf>, &Kernel::Plain<&Kernel::GeluErfOf>},
    {&Kernel::Gated<&Kernel::ReluSquaredOf>, &Kernel::Plain<&Kernel::ReluSquaredOf>},
    &Kernel::SoftCap};

}  // namespace sluice::cpu
