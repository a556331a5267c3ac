#include "backend/cpu/attention/attention_kernel.h"
#include "backend/cpu/simd/avx512.h"

namespace sluice::cpu {

template <class Kv>
using Tile = TileAttention<avx512::F32x16, Kv, 4>;

const AttentionKernels kAvx512AttentionKernels = {
    Tile<float>::kKernel, Tile<Half>::kKernel,  Tile<BFloat>::kKernel,   Tile<Float8>::kKernel,
    Tile<Int8>::kKernel,  Tile<float>::kTiling, &Tile<float>::WorkFloats};

const IndexKernels kAvx512IndexKernels = {&Tile<float>::Index, &Tile<Half>::Index,
                                          &Tile<BFloat>::Index, &Tile<Float8>::Index,
                                          &Tile<Int8>::Index};

}  // namespace sluice::cpu
