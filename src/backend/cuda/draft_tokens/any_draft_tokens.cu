// Between a step and a head that guesses; see ops/draft_tokens.h.
#include "backend/cuda/draft_tokens/params.h"
#include "backend/cuda/simt/dependence.cuh"
#include "ops/sample_row.h"

namespace sluice::cuda {
namespace {

// The last token of a sequence that counts, or -1, and the token behind it.
__device__ int LastOf(const NextTokensParams& p, int s, int* behind) {
  const int begin = p.query_start[s], end = p.query_start[s + 1], slot = p.slots[s];
  const int next = p.next[s];
  const bool drawn = next < 0 && slot >= 0 && slot < p.slot_count;
  *behind = drawn ? p.known[slot * p.known_stride] : max(next, 0);
  if (begin >= end) return -1;
  if (!drawn) return end - 1;
  return begin + min(max(p.lengths[slot] - 1 - p.positions[begin], 0), end - 1 - begin);
}

}  // namespace

// A thread block for each sequence: its tokens, and what its number among those that guess stands
// for.
extern "C" __global__ void any_next_tokens(const NextTokensParams p) {
  WaitForInputs();
  const int s = static_cast<int>(blockIdx.x), item = static_cast<int>(threadIdx.x);
  int behind;
  const int last = LastOf(p, s, &behind);
  for (int t = p.query_start[s] + item; t < p.query_start[s + 1]; t += blockDim.x)
    p.ids[t] = t < last ? p.token_ids[t + 1] : behind;
  if (s + 1 == p.sequences) {
    for (int64_t t = p.query_start[s + 1] + item; t < p.tokens; t += blockDim.x) p.ids[t] = 0;
  }
  if (item != 0 || s >= p.drafts) return;
  const int from = p.drafting[s];
  const int row = from >= 0 && from < p.sequences ? LastOf(p, from, &behind) : -1;
  p.rows[s] = max(row, 0);
  p.first[s] = row < 0 ? 0 : p.positions[row] + 1;
}

extern "C" __global__ void any_keep_guesses(const KeepGuessesParams p) {
  WaitForInputs();
  const int d = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (d >= p.drafts) return;
  const int slot = p.slots[d];
  if (slot < 0 || slot >= p.slot_count) {
    p.ids[d] = 0;
    return;
  }
  const auto* const output =
      reinterpret_cast<const ops::SampleOutput*>(p.outputs + d * p.outputs_stride);
  int id = output->token;
  if (p.target_ids != nullptr) id = id >= 0 && id < p.target_id_count ? p.target_ids[id] : 0;
  p.ids[d] = id;
  p.known[slot * p.known_stride + p.number] = id;
  p.first[d] += p.moved;
  if (p.rows != nullptr) ++reinterpret_cast<ops::SampleRow*>(p.rows + d * p.rows_stride)->position;
}

}  // namespace sluice::cuda
