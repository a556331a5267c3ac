#include "backend/cpu/rope_kv/rope_kv_kernel.h"
#include "backend/cpu/simd/avx512.h"

namespace sluice::cpu {

template <class Kv>
constexpr RopeKvKernel kKernel = &RopeKv<avx512::F32x16, Kv>::Run;

const RopeKvKernels kAvx512RopeKvKernels = {kKernel<float>, kKernel<Half>, kKernel<BFloat>,
                                            kKernel<Float8>, kKernel<Int8>};

}  // namespace sluice::cpu
