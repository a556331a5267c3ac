#include "backend/cpu/rope_kv/rope_kv_kernel.h"
#include "backend/cpu/simd/avx2.h"

namespace sluice::cpu {

const RopeKvKernels kAvx2RopeKvKernels = {&RopeKv<avx2::F32x16, float>::Run,
                                          &RopeKv<avx2::F32x16, Half>::Run,
                                          &RopeKv<avx2::F32x16, BFloat>::Run};

}  // namespace sluice::cpu
