#include "backend/cpu/attention/attention_kernel.h"
#include "backend/cpu/simd/avx2.h"

namespace sluice::cpu {

const AttentionKernels kAvx2AttentionKernels = {TileAttention<avx2::F32x16, float, 1>::kKernel,
                                                TileAttention<avx2::F32x16, Half, 1>::kKernel,
                                                TileAttention<avx2::F32x16, BFloat, 1>::kKernel};

}  // namespace sluice::cpu
