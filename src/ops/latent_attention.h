// Paged attention over latent KV, as DeepSeek's MLA keeps it ("DeepSeek-V2: A Strong, Economical,
// and Efficient Mixture-of-Experts Language Model"): a token has one row for all heads. All of the
// row is the key, its last numbers are the value, too. Queries and results are those of the latent
// space: the matrices that lead there and back belong to the layer (grouped_linear by columns).
// Sequences, positions and block tables are those of attention (ops/attention.h).
#pragma once

#include "ops/attention.h"
#include "ops/op.h"
#include "ops/paged_kv.h"
#include "ops/tensor.h"

namespace sluice::ops {

struct LatentAttention {
  static constexpr std::string_view kName = "latent_attention";
  struct Desc {
    DType activation = DType::kF32;
    int heads = 0;
    int key_width = 0;    // of a row
    int value_width = 0;  // of its last numbers; <= key_width
    float scale = 1.0f;   // of q.k
    // Above 0: a row attends to positions that are listed for it alone, so many at most. 0: to all
    // up to its own.
    int listed_max = 0;
    KvDesc kv;           // of one head, with a V of no numbers
    bool paths = false;  // as Attention::Desc::paths; no implementation has it with lists
    std::string ToString() const;
  };
  struct Args {
    Tensor q;            // [tokens, heads * key_width]
    Tensor query_start;  // I32 [sequences + 1]
    Tensor context;      // I32 [sequences]
    Tensor block_table;  // I32 [sequences, blocks_max]
    PagedKv kv;          // its v and v_scale are empty
    // I32 [tokens, listed_max]: a row's positions, ascending and none behind its own, at least one;
    // -1 follows the last. Or empty. Their order in the list, not where they lie in the sequence,
    // is what an implementation cuts into parts, so a row's bits depend on its list alone.
    Tensor listed;
    Tensor paths;  // as Attention::Args::paths
    Tensor out;    // [tokens, heads * value_width]; may not overlap q
  };
};

// The attention of one KV head, whose V is its K, that this is a part of: of each head's result the
// last value_width numbers. For implementations, whose Attention::Args::out is their own.
Attention::Desc WholeRows(const LatentAttention::Desc& desc);
Attention::Args WholeRows(const LatentAttention::Args& args);

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const LatentAttention::Desc& desc, const LatentAttention::Args& args);
// Query rows, contexts, block ids and listed positions make sense. REQUIRES: CheckArgs is ok; they
// lie in host memory.
Status CheckIndices(const LatentAttention::Desc& desc, const LatentAttention::Args& args);

// How many positions are listed for row `row`. REQUIRES: host memory.
int64_t ListedOf(const Tensor& listed, int64_t row);

Support RefLatentAttentionSupports(const LatentAttention::Desc& desc,
                                   const device::DeviceFacts& facts);
Status RefLatentAttention(device::Stream& stream, const LatentAttention::Desc& desc,
                          const LatentAttention::Args& args);

}  // namespace sluice::ops
