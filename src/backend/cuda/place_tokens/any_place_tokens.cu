// Tables told anew, then positions, contexts, KV slots and the step's tables: a block per sequence,
// which alone reads and writes its row of the tables.
#include "backend/cuda/place_tokens/params.h"
#include "backend/cuda/simt/dependence.cuh"

namespace sluice::cuda {
namespace {

constexpr int kUnroll = 4;  // loads under way at a time

__device__ void Gather(const int32_t* row, int32_t* out, int begin, int end) {
  for (int i = begin + static_cast<int>(threadIdx.x); i < end;
       i += kUnroll * static_cast<int>(blockDim.x)) {
    int32_t ids[kUnroll];
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      const int at = i + k * static_cast<int>(blockDim.x);
      ids[k] = at < end ? row[at] : -1;
    }
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      const int at = i + k * static_cast<int>(blockDim.x);
      if (at < end) out[at] = ids[k];
    }
  }
}

__device__ void Learn(const PlaceTokensParams& p, int s, int32_t* row) {
  const int begin = p.told_start[s], count = p.told_start[s + 1] - begin, first = p.told_first[s];
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    const int at = first + i;
    if (at >= 0 && at < p.tables_width) row[at] = p.told[begin + i];
  }
}

// How much less than its place the position of token `t` is.
__device__ int AsideOf(const PlaceTokensParams& p, int t) {
  if (p.paths == nullptr) return 0;
  const int32_t* const path = p.paths + t * p.path_stride;
  const int length = path[0];
  return length > 0 && length < p.path_numbers ? path[length] : 0;
}

}  // namespace

extern "C" __global__ void any_place_tokens(const PlaceTokensParams p) {
  WaitForInputs();
  const int s = static_cast<int>(blockIdx.x);
  const int slot = p.slots[s];
  const bool has_row = slot >= 0 && slot < p.slot_count;
  int first = p.first[s];
  const int unsure = p.unsure[s];
  if (unsure > 0 && has_row) first = min(max(p.lengths[slot], first - unsure), first);
  const int begin = p.query_start[s], end = p.query_start[s + 1], context = first + end - begin;
  if (threadIdx.x == 0) p.context[s] = context;
  int32_t* const row = has_row ? p.tables + slot * p.tables_stride : nullptr;
  if (row != nullptr) {
    Learn(p, s, row);
    __syncthreads();
    const int blocks = (context + p.block_tokens - 1) / p.block_tokens;
    const int count = min(blocks, p.block_table_width);
    int gone = 0;
    if (p.earlier >= 0) {
      gone = max(0, first - p.earlier) / p.cache_block_tokens *
             (p.cache_block_tokens / p.block_tokens);
      gone = min(gone, count);
    }
    int32_t* const out = p.block_table + s * p.block_table_stride;
    for (int i = threadIdx.x; i < gone; i += blockDim.x) out[i] = -1;
    Gather(row, out, gone, count);
  }
  for (int t = begin + static_cast<int>(threadIdx.x); t < end; t += blockDim.x) {
    const int place = first + t - begin, column = place / p.block_tokens;
    const bool has_block = row != nullptr && p.state == 0 && column < p.tables_width;
    const int id = has_block ? row[column] : -1;
    p.positions[t] = place - AsideOf(p, t);
    p.kv_slots[t] = id < 0 ? -1 : id * p.block_tokens + place % p.block_tokens;
  }
  if (s + 1 < p.sequences) return;
  for (int64_t t = end + static_cast<int64_t>(threadIdx.x); t < p.tokens; t += blockDim.x) {
    p.positions[t] = 0;
    p.kv_slots[t] = -1;
  }
}

}  // namespace sluice::cuda
