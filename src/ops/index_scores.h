// Scores by which sparse attention chooses the positions that a row attends to, as the indexer of
// DeepSeek V3.2 makes them ("DeepSeek-V3.2-Exp: Boosting Long-Context Efficiency with DeepSeek
// Sparse Attention"): few and narrow heads of queries meet one key a token, which is cached. A
// row's scores depend on that row and the keys that it sees alone. Sequences, positions and block
// tables are those of attention (ops/attention.h).
#pragma once

#include "ops/op.h"
#include "ops/paged_kv.h"
#include "ops/tensor.h"

namespace sluice::ops {

struct IndexScores {
  static constexpr std::string_view kName = "index_scores";
  struct Desc {
    DType activation = DType::kF32;
    int heads = 0, head_dim = 0;  // of queries
    float scale = 1.0f;           // above 0
    KvDesc kv;                    // of one head of head_dim numbers, without a V
    std::string ToString() const;
  };
  // The rows of a call are some of a step's, so that scores of a long context need no more memory
  // than some rows have.
  struct Args {
    Tensor q;               // [rows, heads * head_dim]
    Tensor weights;         // F32 [rows, heads]
    int64_t first_row = 0;  // number of the first row among the step's
    Tensor query_start;     // I32 [sequences + 1], counts the step's rows
    Tensor context;         // I32 [sequences]
    Tensor block_table;     // I32 [sequences, blocks_max]
    PagedKv kv;             // its v and v_scale are empty
    // F32 [rows, positions_max]: scale * sum over heads of weight * max(0, q.k) for each position
    // up to the row's own; what stands behind is left as it is. positions_max is at least the
    // longest context; on a device a longer one ends there.
    Tensor scores;
    Tensor lengths;  // I32 [rows]: how many positions the row has scores for; 0: padding
  };
};

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const IndexScores::Desc& desc, const IndexScores::Args& args);
// Rows, contexts and the block ids that will be read make sense. REQUIRES: CheckArgs is ok; they
// lie in host memory.
Status CheckIndices(const IndexScores::Desc& desc, const IndexScores::Args& args);

Support RefIndexScoresSupports(const IndexScores::Desc& desc, const device::DeviceFacts& facts);
Status RefIndexScores(device::Stream& stream, const IndexScores::Desc& desc,
                      const IndexScores::Args& args);

}  // namespace sluice::ops
