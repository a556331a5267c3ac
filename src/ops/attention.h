// Paged attention: each query row attends to the KV of its own sequence through the block table.
// Prefill, chunk, decode and verify are the same op: sequence s has query rows
// [query_start[s], query_start[s + 1]), the last of which stands at position context[s] - 1.
//
// KV is walked in fixed blocks of positions from the first visible one, and partial
// results are combined in ascending order, so a row's bits do not depend on what else is computed.
#pragma once

#include <optional>

#include "ops/op.h"
#include "ops/paged_kv.h"
#include "ops/tensor.h"

namespace sluice::ops {

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
    int compute_unit_budget = 0;
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
  };
};

Support RefAttentionSupports(const Attention::Desc& desc, const device::DeviceFacts& facts);
Status RefAttention(device::Stream& stream, const Attention::Desc& desc,
                    const Attention::Args& args);

}  // namespace sluice::ops
