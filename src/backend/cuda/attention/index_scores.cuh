// What the kernels that score positions share. A thread block has kIndexPiece positions of one row.
// A score's order of sums is that of the row's heads and of the numbers of the key alone, so that
// its bits depend on nothing beside them.
#pragma once

#include "backend/cuda/attention/index_params.h"
#include "backend/cuda/attention/walk.cuh"
#include "backend/cuda/simt/sequence.cuh"

namespace sluice::cuda {

// A row of the call and the positions that it is scored for.
struct IndexRow {
  int row, sequence, length;

  __device__ IndexRow(const IndexParams& p, int of_call) : row(of_call), length(0) {
    const AttentionParams& rows = p.rows;
    const int of_step = p.first_row + of_call;
    sequence = SequenceOf(rows.query_start, rows.sequences, of_step);
    if (sequence < 0) return;
    const int64_t room = int64_t{rows.blocks_max} * rows.block_tokens;
    const int64_t seen =
        rows.context[sequence] - (rows.query_start[sequence + 1] - int64_t{of_step}) + 1;
    const int64_t most = min(int64_t{p.positions_max}, room);
    length = static_cast<int>(max(int64_t{0}, min(seen, most)));
  }
};

// Calls body(row, first position) for what this thread block has, all threads together, and says
// how long the rows are.
template <class Body>
__device__ void ForPieces(const IndexParams& p, const Body& body) {
  for (int row = blockIdx.y; row < p.rows.tokens; row += gridDim.y) {
    const IndexRow at(p, row);
    if (blockIdx.x == 0 && threadIdx.x == 0) p.lengths[row] = at.length;
    const int first = static_cast<int>(blockIdx.x) * kIndexPiece;
    if (first < at.length) body(at, first);
  }
}

// A row's scores of a piece, summed over heads so far, and the weights of the heads at hand.
struct IndexSums {
  float sums[kIndexPiece], weights[kIndexHeads];

  __device__ void Clear() {
    for (int i = threadIdx.x; i < kIndexPiece; i += kIndexThreads) sums[i] = 0.0f;
  }
  // Heads beyond those that there are have a weight of 0.
  __device__ void LoadWeights(const IndexParams& p, int row, int first_head) {
    for (int i = threadIdx.x; i < kIndexHeads; i += kIndexThreads) {
      const int head = first_head + i;
      weights[i] = head < p.rows.q_heads ? p.weights[row * p.weights_stride + head] : 0.0f;
    }
  }
  __device__ void Store(const IndexParams& p, const IndexRow& at, int first) const {
    for (int i = threadIdx.x; i < kIndexPiece; i += kIndexThreads) {
      if (first + i < at.length) p.scores[at.row * p.scores_stride + first + i] = sums[i] * p.scale;
    }
  }
};

// Where position `position` of the row's sequence lies; block -1 if nowhere or behind the row's
// own.
__device__ inline KvRow IndexKeyAt(const IndexParams& p, const IndexRow& at, int position) {
  return Checked(p.rows, FindRow(p.rows, at.sequence, {0, at.length}, position));
}

}  // namespace sluice::cuda
