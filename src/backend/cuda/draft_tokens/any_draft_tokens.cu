// Between a step and a head that guesses; see ops/draft_tokens.h and ops/guess_trees.h.
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

namespace {

// As in ops/attention.h and ops/guess_trees.h, whose headers are for the host.
constexpr int kPathNumbers = 9, kNodeNumbers = 3, kBeamNumbers = 2;
constexpr float kLogProbMin = -10000.0f;

// A thread follows the tree of a sequence, which ends before token `end`. Its rows are few.
__device__ void FollowOne(const FollowTreesParams& p, int slot, int root, int end, int row) {
  const auto drawn_at = [&](int t) {
    return reinterpret_cast<const ops::SampleOutput*>(p.outputs +
                                                      (row + t - root) * p.outputs_stride);
  };
  int last = root, kept = 1;
  p.order[root] = root;
  for (int t = root + 1; t < end; ++t) {
    const int32_t* const path = p.paths + t * p.path_stride;
    const int count = path[0];
    const int back = count == 0 ? 1 : 1 + path[count] - (count > 1 ? path[count - 1] : 0);
    const ops::SampleOutput* const drawn = drawn_at(last);
    if (t - back != last || drawn->degenerate || drawn->token != p.token_ids[t]) continue;
    last = t;
    p.order[root + kept++] = t;
  }
  // Those that are left come behind. Both are ascending.
  for (int t = root + 1, next = 1, place = root + kept; t < end; ++t) {
    if (next < kept && p.order[root + next] == t) {
      ++next;
    } else {
      p.order[place++] = t;
    }
  }
  for (int t = root; t < end; ++t) {
    p.ids[t] = p.token_ids[p.order[t]];
    p.places[t] = p.positions[root] + t - root;
  }
  if (slot < 0 || slot >= p.slot_count) return;
  p.lengths[slot] = p.positions[root] + kept;
  p.known[slot * p.known_stride] = drawn_at(last)->token;
}

}  // namespace

// A thread block for each sequence.
extern "C" __global__ void any_follow_trees(const FollowTreesParams p) {
  WaitForInputs();
  const int s = static_cast<int>(blockIdx.x), item = static_cast<int>(threadIdx.x);
  const int begin = p.query_start[s], end = p.query_start[s + 1];
  const auto stays = [&](int64_t t) {
    p.order[t] = static_cast<int>(t);
    p.ids[t] = p.token_ids[t];
    p.places[t] = p.positions[t];
  };
  for (int t = begin + item; t < end; t += blockDim.x) stays(t);
  if (s + 1 == p.sequences) {
    for (int64_t t = end + item; t < p.tokens; t += blockDim.x) stays(t);
  }
  __syncthreads();
  if (item != 0 || begin >= end || p.paths[(end - 1) * p.path_stride] == 0) return;
  int row = 0;
  while (row < p.rows && (p.logits_rows[row] < begin || p.logits_rows[row] >= end)) ++row;
  if (row == p.rows || row + end - p.logits_rows[row] > p.rows) return;
  FollowOne(p, p.slots[s], p.logits_rows[row], end, row);
}

// A thread for each sequence that guesses: its nodes are few.
extern "C" __global__ void any_grow_trees(const GrowTreesParams p) {
  WaitForInputs();
  const int d = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (d >= p.drafts) return;
  const int from = p.depth == 1 ? 1 : p.beam_count, slot = p.slots[d];
  const bool guesses = slot >= 0 && slot < p.slot_count;
  for (int b = 0; b < p.beam_count; ++b) {
    const int at = d * p.beam_count + b;
    for (int i = 0; i < kBeamNumbers; ++i) p.next_beams[at * kBeamNumbers + i] = 0;
    for (int i = 0; i < kPathNumbers; ++i) p.next_paths[at * kPathNumbers + i] = 0;
    p.ids[at] = 0;
    p.order[at] = d * from;
  }
  if (!guesses) return;
  p.first[d] += p.moved;
  int32_t* const nodes = p.nodes + d * p.nodes_stride + int64_t{p.begin} * kNodeNumbers;
  const auto beam_of = [&](int n) { return p.beams + (d * from + n / p.children) * kBeamNumbers; };
  // Of node n of these, with all that leads there.
  const auto together = [&](int n) {
    const float before = p.depth == 1 ? 0.0f : __int_as_float(beam_of(n)[1]);
    return before + __int_as_float(nodes[n * kNodeNumbers + 2]);
  };
  const int count = from * p.children;
  for (int n = 0; n < count; ++n) {
    const int64_t row = d * from + n / p.children, child = n % p.children;
    const auto* const output =
        reinterpret_cast<const ops::SampleOutput*>(p.outputs + row * p.outputs_stride);
    int id = output->degenerate ? output->token : p.top_ids[row * p.ids_stride + child];
    if (p.target_ids != nullptr) id = id >= 0 && id < p.target_id_count ? p.target_ids[id] : 0;
    const float given = p.top_logprobs[row * p.logprobs_stride + child];
    const bool likely = !output->degenerate && given > kLogProbMin;
    nodes[n * kNodeNumbers] = id;
    nodes[n * kNodeNumbers + 1] = p.depth == 1 ? 0 : beam_of(n)[0];
    nodes[n * kNodeNumbers + 2] = __float_as_int(likely ? given : kLogProbMin);
  }
  // In the order of falling log-probs, and of nodes where these are the same.
  int last = -1;
  for (int b = 0; b < p.beam_count; ++b) {
    int best = -1;
    for (int n = 0; n < count; ++n) {
      const float mine = together(n);
      if (last >= 0 && !(mine < together(last) || (mine == together(last) && n > last))) continue;
      if (best < 0 || mine > together(best)) best = n;
    }
    last = best;
    const int at = d * p.beam_count + b, row = d * from + best / p.children;
    p.next_beams[at * kBeamNumbers] = p.begin + best + 1;
    p.next_beams[at * kBeamNumbers + 1] = __float_as_int(together(best));
    p.ids[at] = nodes[best * kNodeNumbers];
    p.order[at] = row;
    int32_t* const path = p.next_paths + at * kPathNumbers;
    for (int i = 1; i < p.depth; ++i) path[i] = p.paths[row * kPathNumbers + i];
    path[0] = p.depth;
    path[p.depth] = (p.depth - 1) * (p.beam_count - 1) + b;
  }
}

}  // namespace sluice::cuda
