#include "backend/cpu/simd/avx512.h"
#include "backend/cpu/streams/streams_kernel.h"

namespace sluice::cpu {

using Kernel = StreamsKernel<avx512::F32x16>;

const StreamsKernels kAvx512StreamsKernels = {&Kernel::Predict, &Kernel::Correct, &Kernel::Level};

}  // namespace sluice::cpu
