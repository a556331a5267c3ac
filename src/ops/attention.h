// Paged attention: each query row attends to the KV of its own sequence through the block table.
// Prefill, chunk, decode and verify are the same op: sequence s has query rows
// [query_start[s], query_start[s + 1]), the last of which stands at position context[s] - 1.
//
// KV is walked in fixed blocks at absolute positions, and partial results are combined in ascending
// order, so a row's bits do not depend on what else is computed. Rows past query_start's last entry
// are padding: neither read nor written.
//
// A sequence's rows may be a tree of drafts. Each row's KV has a place of its own, the next one
// behind that of the row before, but a row aside of the first branch stands at an earlier position
// than that, and the last positions that it sees are those of its ancestors, which lie elsewhere:
// Args::paths says where. What is computed, and in which order, is that of the ancestors in a row.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "ops/op.h"
#include "ops/paged_kv.h"
#include "ops/tensor.h"
#include "sluice/limits.h"

namespace sluice::ops {

// A block id outside the KV, of a position that is seen, is kInvalidArgument where the table lies
// in host memory (CheckIndices). Elsewhere the K and V of its positions count as zeros; a context
// that is longer than its row of the table ends there.
struct Attention {
  static constexpr std::string_view kName = "attention";
  struct Desc {
    DType activation = DType::kF32;
    int q_heads = 0, kv_heads = 0, head_dim = 0;  // q_heads is a multiple of kv_heads
    std::optional<float> scale;  // of q.k; absent: 1 / sqrt(head_dim). 0 is a value like others
    std::optional<float> soft_cap;
    bool causal = true;  // a row sees nothing behind its own position
    // A row sees the last `window` positions, its own included, and unless the mask is causal as
    // many behind it; 0: all.
    int window = 0;
    bool chunked = false;  // a row sees its window's positions from a multiple of `window` on
    bool sinks = false;    // the softmax of each head counts one more score, which has no V
    bool alibi = false;    // a score falls with the distance of its position
    // Above 0: a number of the head is added to each scaled score, one of so many, by how far the
    // position stands from the row's (BiasBucket). An even number from 4 on.
    int bias_buckets = 0;
    // Queries are scaled once more by 1 + growth_scale * log(1 + floor((position + 1) /
    // growth_tokens)), as Llama 4 holds long contexts together; 0 tokens: they are not.
    int growth_tokens = 0;
    float growth_scale = 0.0f;
    int query_tokens_max = 0;  // of one sequence in a call; 0: any
    bool paths = false;        // calls may have Args::paths; needs the causal mask
    KvDesc kv;
    std::string ToString() const;
  };
  struct Args {
    Tensor q;            // [tokens, q_heads * head_dim]
    Tensor query_start;  // I32 [sequences + 1]
    Tensor context;      // I32 [sequences]: KV tokens, the query rows' own included
    Tensor
        block_table;  // I32 [sequences, blocks_max]: kernel-block ids by position; -1 is never read
    PagedKv kv;
    Tensor sinks;  // F32 [q_heads]: that score, as it is, scaled and capped no more; or empty
    // F32 [q_heads]: what is subtracted from a score, scaled and capped, for each position that it
    // lies behind the row's own; or empty.
    Tensor slopes;
    Tensor bias;  // F32 [bias_buckets, q_heads]; or empty
    // I32 [tokens, kPathNumbers], or empty: no row is aside of the first branch. Number 0 of a row:
    // how many of the last positions that it sees, its own included, lie elsewhere; then for each
    // of these, ascending, how far behind its place that is. The last number is so how much less
    // the row's position is than its place. Rows that have any come behind the others of their
    // sequence. What they see elsewhere may have been written by earlier calls.
    Tensor paths;
    Tensor out;  // [tokens, q_heads * head_dim]; may not overlap q
    // I32 [AttentionPlanNumbers(sequences)] or empty: what an implementation makes of query_start
    // and context, which depends on the step alone, is kept here for the layers that follow.
    Tensor plan;
    // An earlier call of this step made the plan: with an equal descriptor, tensors of the same
    // sizes, and these query_start and context.
    bool planned = false;
  };
};

// Numbers of a row of Attention::Args::paths.
inline constexpr int kPathNumbers = 1 + limits::kDraftTokensMax;

// Numbers of Attention::Args::plan, enough for every implementation.
constexpr int64_t AttentionPlanNumbers(int64_t sequences) { return 8 * sequences + 8; }

// The numbers of a row of Args::paths. REQUIRES: there are paths, in host memory.
inline const int32_t* PathOf(const Tensor& paths, int64_t row) {
  return paths.ptr<int32_t>() + row * paths.strides[0];
}
// How many places behind its position a row stands in its step: what its path says of its own KV.
inline int32_t AsideOf(const int32_t* path) { return path[path[0]]; }

// Writes Args::paths of a tree: row 0 is its root, and row 1 + i of it follows row parents[i],
// which is one before it; paths [1 + parents.size(), kPathNumbers]. Rows stay without a path as
// long as each follows the one before it. REQUIRES: parents.size() < kPathNumbers.
void WritePaths(std::span<const int32_t> parents, int32_t* paths);

// The factor of q.k.
inline float ScaleOf(const Attention::Desc& desc) {
  return desc.scale.value_or(1.0f / std::sqrt(static_cast<float>(desc.head_dim)));
}
// The factor of q.k of the row at `position`.
inline float ScaleAt(const Attention::Desc& desc, int64_t position) {
  if (desc.growth_tokens == 0) return ScaleOf(desc);
  const int64_t steps = (position + 1) / desc.growth_tokens;
  return ScaleOf(desc) * (1.0f + desc.growth_scale * std::log(1.0f + static_cast<float>(steps)));
}
// The descriptor asks for what few models need and not every kernel has.
inline bool HasPositionTerms(const Attention::Desc& desc) {
  return desc.chunked || desc.alibi || desc.growth_tokens != 0;
}
// The first position that the row at `position` sees.
inline int64_t FirstVisible(const Attention::Desc& desc, int64_t position) {
  if (desc.chunked) return position - position % desc.window;
  return desc.window > 0 && position >= desc.window ? position - desc.window + 1 : 0;
}

// The end of the positions that the row at `position` sees, in a context of so many.
inline int64_t EndOfVisible(const Attention::Desc& desc, int64_t position, int64_t context) {
  if (desc.causal) return position + 1;
  return desc.window > 0 ? std::min(context, position + desc.window) : context;
}

// Which of `buckets` numbers is added to the score of a position that stands `distance` behind the
// row's (before it where that is negative). Half of them are for each direction: of these the first
// half are for one distance each, the others for ranges that grow by the logarithm, and the last is
// for all from kBiasDistanceMax on. This is T5's rule ("Exploring the Limits of Transfer Learning
// with a Unified Text-to-Text Transformer"), as MPNet uses it.
inline constexpr int kBiasDistanceMax = 128;
int BiasBucket(int buckets, int64_t distance);

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const Attention::Desc& desc, const Attention::Args& args);
// Query rows, contexts and the block ids that will be read make sense. REQUIRES: CheckArgs is ok;
// they lie in host memory.
Status CheckIndices(const Attention::Desc& desc, const Attention::Args& args);

Support RefAttentionSupports(const Attention::Desc& desc, const device::DeviceFacts& facts);
// What kernels support that know neither biases of scores nor windows without the causal mask.
Support PlainAttentionSupports(const Attention::Desc& desc, const device::DeviceFacts& facts);
Status RefAttention(device::Stream& stream, const Attention::Desc& desc,
                    const Attention::Args& args);

}  // namespace sluice::ops
