// x in F32; W in the formats of blocks of 32.
#include "backend/cuda/linear/linear_kernel.cuh"
#include "backend/cuda/linear/weight_blocks.cuh"

namespace {
using sluice::DType;
using sluice::cuda::Blocks;
}  // namespace

#define LINEAR_BLOCKS(name, type)                                  \
  LINEAR_FETCHED(name##_stream_8, 2, 1, 2, DType::type)            \
  LINEAR_STREAM(name##_stream_32, 2, 4, 1, 2, Blocks<DType::type>) \
  LINEAR_TILE(name##_tile_64, 2, 8, 4, Blocks<DType::type>)

LINEAR_BLOCKS(q4_0, kQ4_0)
LINEAR_BLOCKS(q4_1, kQ4_1)
LINEAR_BLOCKS(q5_0, kQ5_0)
LINEAR_BLOCKS(q5_1, kQ5_1)
LINEAR_BLOCKS(q8_0, kQ8_0)
LINEAR_BLOCKS(iq4_nl, kIQ4_NL)
LINEAR_BLOCKS(mxfp4, kMXFP4)
