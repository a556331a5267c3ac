// Paged attention: each query row attends to the KV of its own sequence through the block table.
// Prefill, chunk, decode and verify are the same op: sequence s has query rows
// [query_start[s], query_start[s + 1]), the last of which stands at position context[s] - 1.
//
// KV is walked in fixed blocks at absolute positions, and partial results are combined in ascending
// order, so a row's bits do not depend on what else is computed. Rows past query_start's last entry
// are padding: neither read nor written.
#pragma once

#include <cmath>
#include <optional>

#include "ops/op.h"
#include "ops/paged_kv.h"
#include "ops/tensor.h"

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
    bool causal = true;
    int window = 0;            // a row sees the last `window` positions, its own included; 0: all
    int query_tokens_max = 0;  // of one sequence in a call; 0: any
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
    Tensor out;  // [tokens, q_heads * head_dim]; may not overlap q
    // I32 [AttentionPlanNumbers(sequences)] or empty: what an implementation makes of query_start
    // and context, which depends on the step alone, is kept here for the layers that follow.
    Tensor plan;
    // An earlier call of this step made the plan: with an equal descriptor, tensors of the same
    // sizes, and these query_start and context.
    bool planned = false;
  };
};

// Numbers of Attention::Args::plan, enough for every implementation.
constexpr int64_t AttentionPlanNumbers(int64_t sequences) { return 8 * sequences + 8; }

// The factor of q.k.
inline float ScaleOf(const Attention::Desc& desc) {
  return desc.scale.value_or(1.0f / std::sqrt(static_cast<float>(desc.head_dim)));
}
// The first position that the row at `position` sees.
inline int64_t FirstVisible(const Attention::Desc& desc, int64_t position) {
  return desc.window > 0 && position >= desc.window ? position - desc.window + 1 : 0;
}

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const Attention::Desc& desc, const Attention::Args& args);
// Query rows, contexts and the block ids that will be read make sense. REQUIRES: CheckArgs is ok;
// they lie in host memory.
Status CheckIndices(const Attention::Desc& desc, const Attention::Args& args);

Support RefAttentionSupports(const Attention::Desc& desc, const device::DeviceFacts& facts);
Status RefAttention(device::Stream& stream, const Attention::Desc& desc,
                    const Attention::Args& args);

}  // namespace sluice::ops
