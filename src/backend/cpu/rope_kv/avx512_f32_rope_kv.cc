#include "backend/cpu/rope_kv/rope_kv_kernel.h"
#include "backend/cpu/simd/avx512.h"

namespace sluice::cpu {

const RopeKvKernels kAvx512RopeKvKernels = {&RopeKv<avx512::F32x16, float>::Run,
                                            &RopeKv<avx512::F32x16, Half>::Run,
                                            &RopeKv<avx512::F32x16, BFloat>::Run};

}  // namespace sluice::cpu
