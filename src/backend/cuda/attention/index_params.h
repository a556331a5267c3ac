// What the kernels of sparse attention take that score positions and choose among them, shared by
// host and device. Pointers are device memory, strides are in elements.
#pragma once

#include "backend/cuda/attention/params.h"

namespace sluice::cuda {

// A thread block has so many positions of one row, by tiles; heads are taken by as many at a time.
inline constexpr int kIndexTile = 64, kIndexPiece = 256, kIndexHeads = 64, kIndexThreads = 128;
inline constexpr int kIndexDimMax = 256;  // of a head: shared memory holds a tile and the heads
inline constexpr int kTopKThreads = 1024;

struct IndexParams {
  // One head of K; tokens are the rows of the call. What belongs to V and to results is unused.
  AttentionParams rows;
  const float* weights;  // [rows, heads]
  float* scores;         // [rows, positions_max]
  int32_t* lengths;      // [rows]
  int64_t weights_stride, scores_stride;
  int32_t first_row;  // of the call among the step's
  int32_t positions_max;
  float scale;
};

// Shared memory of a tile's keys and of the heads, in F32 or in 16 bits. Rows are padded so that
// neighbours begin in different banks.
constexpr int IndexWidth(int dim, bool in_f32) { return in_f32 ? (dim + 3) / 4 * 4 + 4 : dim + 8; }
constexpr int IndexSharedBytes(int dim, bool in_f32) {
  return (kIndexTile + kIndexHeads) * IndexWidth(dim, in_f32) * (in_f32 ? 4 : 2);
}

struct TopKParams {
  const float* scores;
  const int32_t* lengths;
  int32_t* positions;
  int64_t scores_stride, positions_stride;
  int32_t width, k;
};

}  // namespace sluice::cuda
