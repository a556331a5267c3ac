// x in F32; W in the formats of blocks of 256.
#include "backend/cuda/linear/linear_kernel.cuh"
#include "backend/cuda/linear/weight_blocks.cuh"

namespace {
using sluice::DType;
using sluice::cuda::Blocks;
}  // namespace

#define LINEAR_BLOCKS(name, type)                                  \
  LINEAR_STREAM(name##_stream_8, 1, 1, 1, 2, Blocks<DType::type>)  \
  LINEAR_STREAM(name##_stream_32, 1, 4, 1, 2, Blocks<DType::type>) \
  LINEAR_TILE(name##_tile_64, 1, 8, 2, Blocks<DType::type>)

LINEAR_BLOCKS(q2_k, kQ2_K)
LINEAR_BLOCKS(q3_k, kQ3_K)
LINEAR_BLOCKS(q4_k, kQ4_K)
LINEAR_BLOCKS(q5_k, kQ5_K)
LINEAR_BLOCKS(q6_k, kQ6_K)
