// The counts that penalties read: whole rows set, and drawn tokens added; see ops/token_counts.h.
#include "backend/cuda/sampling/params.h"
#include "backend/cuda/simt/dependence.cuh"

namespace sluice::cuda {

// A thread block per row that is set.
extern "C" __global__ void any_set_counts(const SetCountsParams p) {
  WaitForInputs();
  const int32_t* const row = p.rows + blockIdx.x * p.rows_stride;
  if (row[0] < 0 || row[0] >= p.counts_count) return;
  uint32_t* const counts = p.counts + row[0] * p.counts_stride;
  for (int64_t id = threadIdx.x; id < p.vocab; id += blockDim.x) counts[id] = 0;
  __syncthreads();
  const int64_t end = min(int64_t{row[2]}, p.word_count);
  for (int64_t w = max(row[1], 0) + int64_t{threadIdx.x}; w < end; w += blockDim.x) {
    const int32_t* const word = p.words + w * p.words_stride;
    if (word[0] >= 0 && word[0] < p.vocab) counts[word[0]] = static_cast<uint32_t>(word[1]);
  }
}

// A thread follows a sequence's rows from the first.
extern "C" __global__ void any_count_tokens(const CountTokensParams p) {
  WaitForInputs();
  const int64_t begin = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (begin >= p.row_count) return;
  const auto row_at = [&](int64_t i) {
    return reinterpret_cast<const ops::SampleRow*>(p.rows + i * p.rows_stride);
  };
  const ops::SampleRow* row = row_at(begin);
  const int32_t counts_row = row->counts_row;
  if (!row->draw || row->drafts != 0 || counts_row < 0 || counts_row >= p.counts_count) return;
  uint32_t* const counts = p.counts + counts_row * p.counts_stride;
  for (int64_t i = begin; i < p.row_count; ++i) {
    row = row_at(i);
    const auto* const output =
        reinterpret_cast<const ops::SampleOutput*>(p.outputs + i * p.outputs_stride);
    const bool follows = row->draw && row->counts_row == counts_row && row->drafts == i - begin;
    if (!follows || output->degenerate) return;
    const int32_t token = output->token;
    if (token >= 0 && token < p.vocab) ++counts[token];
    if (row->target != token) return;
  }
}

}  // namespace sluice::cuda
