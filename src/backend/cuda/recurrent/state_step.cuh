// What a sequence does in a call of an op with a state. Device code only.
#pragma once

#include "backend/cuda/recurrent/params.h"

namespace sluice::cuda {

// As ops::StateStep of all rows of a sequence; those that lie outside the call are left out.
struct StateStep {
  int64_t begin, tokens;
  int64_t read, write;  // where the first state and the block to write begin; -1: zeros, none
  int32_t first;        // position of the first row
};

// Whether the state behind row `t` is kept.
__device__ __forceinline__ bool Keeps(const StateTableParams& table, const StateStep& step,
                                      int64_t t) {
  return step.tokens <= table.states || t + 1 == step.tokens;
}
// Where the state behind row `t` lies.
__device__ __forceinline__ int64_t PlaceOf(const StateTableParams& table, const StateStep& step,
                                           int64_t t) {
  return step.write + (step.first + static_cast<int32_t>(t)) % table.states * table.numbers;
}

__device__ __forceinline__ int64_t RowWithin(const StateTableParams& table, int32_t row,
                                             int64_t least) {
  return row < least ? least : row > table.rows ? table.rows : row;
}

__device__ inline StateStep StateStepOf(const StateTableParams& table, int sequence) {
  StateStep step;
  step.begin = RowWithin(table, table.query_start[sequence], 0);
  step.tokens = RowWithin(table, table.query_start[sequence + 1], step.begin) - step.begin;
  step.read = step.write = -1;
  step.first = 0;
  const int64_t end = table.context[sequence], first = end - step.tokens;
  if (step.tokens == 0 || first < 0) return step;
  const int64_t last = (end - 1) / table.block_tokens;
  if (last >= table.table_width) return step;
  step.first = static_cast<int32_t>(first);
  const int32_t* row = table.block_table + sequence * table.table_stride;
  if (first > 0) {
    const int64_t id = row[(first - 1) / table.block_tokens];
    if (id < 0 || id >= table.blocks) return step;
    step.read = id * table.block_stride + (first - 1) % table.states * table.numbers;
  }
  const int64_t id = row[last];
  if (id >= 0 && id < table.blocks) step.write = id * table.block_stride;
  return step;
}

}  // namespace sluice::cuda
