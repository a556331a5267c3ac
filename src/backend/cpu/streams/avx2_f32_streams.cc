#include "backend/cpu/simd/avx2.h"
#include "backend/cpu/streams/streams_kernel.h"

namespace sluice::cpu {

using Kernel = StreamsKernel<avx2::F32x16>;

const StreamsKernels kAvx2StreamsKernels = {&Kernel::Predict, &Kernel::Correct, &Kernel::Level};

}  // namespace sluice::cpu
