#include "backend/cpu/attention/attention_kernel.h"
#include "backend/cpu/simd/avx2.h"

namespace sluice::cpu {

template <class Kv>
using Tile = TileAttention<avx2::F32x16, Kv, 1>;

const AttentionKernels kAvx2AttentionKernels = {
    Tile<float>::kKernel, Tile<Half>::kKernel,  Tile<BFloat>::kKernel,   Tile<Float8>::kKernel,
    Tile<Int8>::kKernel,  Tile<float>::kTiling, &Tile<float>::WorkFloats};

const IndexKernels kAvx2IndexKernels = {&Tile<float>::Index, &Tile<Half>::Index,
                                        &Tile<BFloat>::Index, &Tile<Float8>::Index,
                                        &Tile<Int8>::Index};

}  // namespace sluice::cpu
