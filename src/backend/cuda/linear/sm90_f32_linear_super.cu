// x in F32; W in the formats of blocks of 256.
#include "backend/cuda/linear/linear_kernel.cuh"
#include "backend/cuda/linear/weight_blocks.cuh"

namespace {
using sluice::DType;
using sluice::cuda::Blocks;
}  // namespace

// Few tokens: blocks whose words lie in few lines are read where they are; those of Q6_K,
// at any even address, are fetched first.
#define LINEAR_WORDS(name, type) LINEAR_STREAM(name##_stream_8, 1, 1, 1, 2, Blocks<DType::type>)
#define LINEAR_BYTES(name, type) LINEAR_FETCHED(name##_stream_8, 1, 1, 2, DType::type)
#define LINEAR_MANY(name, type)                                    \
  LINEAR_STREAM(name##_stream_32, 1, 4, 1, 2, Blocks<DType::type>) \
  LINEAR_TILE(name##_tile_64, 1, 8, 2, Blocks<DType::type>)

LINEAR_WORDS(q2_k, kQ2_K)
LINEAR_MANY(q2_k, kQ2_K)
LINEAR_WORDS(q3_k, kQ3_K)
LINEAR_MANY(q3_k, kQ3_K)
LINEAR_WORDS(q4_k, kQ4_K)
LINEAR_MANY(q4_k, kQ4_K)
LINEAR_WORDS(q5_k, kQ5_K)
LINEAR_MANY(q5_k, kQ5_K)
LINEAR_BYTES(q6_k, kQ6_K)
LINEAR_MANY(q6_k, kQ6_K)
