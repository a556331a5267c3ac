// Where the positions of a list lie.
#pragma once

#include "backend/cuda/attention/latent_params.h"
#include "backend/cuda/attention/walk.cuh"

namespace sluice::cuda {

// Entry `at` of the list of `token`, which has `count`. What is returned is not checked.
__device__ inline KvRow FindListed(const ListedParams& listed, int token, int count, int at) {
  if (at >= count) return {-1, 0};
  const int position = listed.positions[token * listed.stride + at];
  const int column = position / listed.block_tokens;
  if (position < 0 || column >= listed.blocks_max) return {-1, 0};
  const int64_t row = listed.sequence_of[token];
  return {listed.table[row * listed.table_stride + column],
          position - column * listed.block_tokens};
}

}  // namespace sluice::cuda
