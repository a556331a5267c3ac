#include "backend/cpu/attention/attention_kernel.h"
#include "backend/cpu/simd/avx512.h"

namespace sluice::cpu {

const AttentionKernels kAvx512AttentionKernels = {
    TileAttention<avx512::F32x16, float, 4>::kKernel,
    TileAttention<avx512::F32x16, Half, 4>::kKernel,
    TileAttention<avx512::F32x16, BFloat, 4>::kKernel};

}  // namespace sluice::cpu
