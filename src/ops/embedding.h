// Embedding: rows of a table by token id, and gathering rows by index.
//
// A number outside its table is never followed. Where the numbers lie in host memory the call is
// kInvalidArgument and writes nothing (CheckIndices). Elsewhere the row of the result is NaN, so
// that it is noticed, and all other rows are as if it were not there; ResolveTokens leaves the id
// as it is, negative, for Embedding to meet.
#pragma once

#include "ops/op.h"
#include "ops/tensor.h"

namespace sluice::ops {

// out[t] = scale * table[ids[t]], or that added to out[t].
struct Embedding {
  static constexpr std::string_view kName = "embedding";
  struct Desc {
    DType table = DType::kF32;  // any stored format
    DType activation = DType::kF32;
    int64_t vocab = 0, hidden = 0;
    float scale = 1.0f;
    bool add = false;
    bool first_beyond = false;  // ids from `vocab` on have the first row, and are not outside
    std::string ToString() const;
  };
  struct Args {
    Tensor ids;    // I32 [tokens]
    Tensor table;  // [vocab, hidden] row-major in its stored format
    Tensor out;    // [tokens, hidden]
  };
};

// out[i] = x[rows[i]]
struct GatherRows {
  static constexpr std::string_view kName = "gather_rows";
  struct Desc {
    DType activation = DType::kF32;
    int64_t width = 0;
    std::string ToString() const;
  };
  struct Args {
    Tensor x;     // [tokens, width]
    Tensor rows;  // I32 [n]
    Tensor out;   // [n, width]; may not overlap x
  };
};

// ids[t] = previous[-1 - ids[t]] where ids[t] < 0: tokens that the step before drew and that the
// host did not know when it planned. Others stay.
struct ResolveTokens {
  static constexpr std::string_view kName = "resolve_tokens";
  struct Desc {
    std::string ToString() const;
  };
  struct Args {
    Tensor ids;       // I32 [tokens], in place
    Tensor previous;  // I32 [rows]
  };
};

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const Embedding::Desc& desc, const Embedding::Args& args);
Status CheckArgs(const GatherRows::Desc& desc, const GatherRows::Args& args);
Status CheckArgs(const ResolveTokens::Desc& desc, const ResolveTokens::Args& args);
// Ids and row numbers lie inside their tables. REQUIRES: CheckArgs is ok; they lie in host memory.
Status CheckIndices(const Embedding::Desc& desc, const Embedding::Args& args);
Status CheckIndices(const GatherRows::Desc& desc, const GatherRows::Args& args);
Status CheckIndices(const ResolveTokens::Desc& desc, const ResolveTokens::Args& args);

Support RefEmbeddingSupports(const Embedding::Desc& desc, const device::DeviceFacts& facts);
Status RefEmbedding(device::Stream& stream, const Embedding::Desc& desc,
                    const Embedding::Args& args);
Support RefGatherRowsSupports(const GatherRows::Desc& desc, const device::DeviceFacts& facts);
Status RefGatherRows(device::Stream& stream, const GatherRows::Desc& desc,
                     const GatherRows::Args& args);
Support RefResolveTokensSupports(const ResolveTokens::Desc& desc, const device::DeviceFacts& facts);
Status RefResolveTokens(device::Stream& stream, const ResolveTokens::Desc& desc,
                        const ResolveTokens::Args& args);

}  // namespace sluice::ops
