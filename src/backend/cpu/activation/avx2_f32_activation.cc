#include "backend/cpu/activation/activation_kernel.h"
#include "backend/cpu/simd/avx2.h"

namespace sluice::cpu {

using Kernel = ActivationKernel<avx2::F32x16>;

const ActivationKernels kAvx2ActivationKernels = {
    {&Kernel::Gated<&Kernel::GatedBy<&Kernel::SiluOf>>, &Kernel::Plain<&Kernel::SiluOf>},
    {&Kernel::Gated<&Kernel::GatedBy<&Kernel::GeluTanhOf>>, &Kernel::Plain<&Kernel::GeluTanhOf>},
    {&Kernel::Gated<&Kernel::GatedBy<&Kernel::GeluErfOf>>, &Kernel::Plain<&Kernel::GeluErfOf>},
    {&Kernel::Gated<&Kernel::GatedBy<&Kernel::ReluSquaredOf>>,
     &Kernel::Plain<&Kernel::ReluSquaredOf>},
    {&Kernel::Gated<&Kernel::ClampedSwigluOf>, nullptr},
    &Kernel::SoftCap,
    &Kernel::GaussianTopK};

}  // namespace sluice::cpu
