// What is known of sequences where tokens are drawn; see ops/token_counts.h.
#include "backend/cuda/sampling/params.h"
#include "backend/cuda/sampling/rules.cuh"
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

// A thread per row.
extern "C" __global__ void any_resolve_rows(const ResolveRowsParams p) {
  WaitForInputs();
  const int64_t r = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r >= p.row_count) return;
  auto* const row = reinterpret_cast<ops::SampleRow*>(p.rows + r * p.rows_stride);
  const int32_t slot = row->slot;
  if (slot < 0 || slot >= p.known.slots) return;
  if (row->position < 0) row->position = p.known.lengths[slot] - row->position;
  const int64_t token = -1 - int64_t{row->target};
  if (token < 1 || token >= p.known.token_count) return;
  row->target = p.known.tokens[slot * p.known.tokens_stride + token];
}

// A thread follows a sequence's rows from the first.
extern "C" __global__ void any_keep_drawn(const KeepDrawnParams p) {
  WaitForInputs();
  const int64_t begin = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (begin >= p.row_count) return;
  const auto row_at = [&](int64_t i) {
    return reinterpret_cast<const ops::SampleRow*>(p.rows + i * p.rows_stride);
  };
  const ops::SampleRow* row = row_at(begin);
  const int32_t counts_row = row->counts_row, slot = row->slot;
  if (!row->draw || row->drafts != 0) return;
  uint32_t* const counts = counts_row >= 0 && counts_row < p.counts_count
                               ? p.counts + counts_row * p.counts_stride
                               : nullptr;
  bool open = true;
  for (int64_t i = begin; i < p.row_count; ++i) {
    row = row_at(i);
    if (!row->draw || row->slot != slot || row->drafts != i - begin) return;
    auto* const output = reinterpret_cast<ops::SampleOutput*>(p.outputs + i * p.outputs_stride);
    output->kept = open;
    if (!open) continue;
    if (p.taken > 0.0 && row->target >= 0 && row->target < p.vocab && row->mask_row < 0 &&
        LotOf(*row, kAcceptDraw) < p.taken) {
      output->token = row->target;
      output->degenerate = false;
    }
    const int32_t token = output->token;
    if (slot >= 0 && slot < p.known.slots) {
      p.known.lengths[slot] = static_cast<int32_t>(row->position);
      p.known.tokens[slot * p.known.tokens_stride] = token;
    }
    open = !output->degenerate && row->target == token;
    if (counts != nullptr && !output->degenerate && token >= 0 && token < p.vocab) ++counts[token];
  }
}

}  // namespace sluice::cuda
