// Counts of tokens, which Sample's penalties read: a row for a sequence, a word for each id
// (ops/sample_row.h). SetCounts writes whole rows, where a sequence starts; CountTokens adds what a
// Sample has drawn, so that the next one may be put on the stream before anybody has read it.
//
// A number outside its array is kInvalidArgument where the numbers lie in host memory
// (CheckIndices), and nothing is written. Elsewhere it is passed over.
#pragma once

#include "ops/op.h"
#include "ops/sample_row.h"
#include "ops/tensor.h"

namespace sluice::ops {

struct SetCounts {
  static constexpr std::string_view kName = "set_counts";
  struct Desc {
    int64_t vocab = 0;
    std::string ToString() const;
  };
  struct Args {
    Tensor rows;    // I32 [n, 3]: a row of counts, and where its words begin and end; rows differ
    Tensor words;   // I32 [m, 2]: an id and its word; all other ids of the row get 0. Ids differ
    Tensor counts;  // I32 [count rows, vocab]
  };
};

// Every row that draws and has counts counts its token, unless it is degenerate. A row with drafts
// before it does so only where each of these was drawn by the row before it. REQUIRES: no two
// sequences name the same row of counts.
struct CountTokens {
  static constexpr std::string_view kName = "count_tokens";
  struct Desc {
    int64_t vocab = 0;
    std::string ToString() const;
  };
  struct Args {
    Tensor rows;     // U8 [rows, sizeof(SampleRow)], as Sample read them
    Tensor outputs;  // U8 [rows, sizeof(SampleOutput)], as Sample left them
    Tensor counts;   // I32 [count rows, vocab]
  };
};

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const SetCounts::Desc& desc, const SetCounts::Args& args);
Status CheckArgs(const CountTokens::Desc& desc, const CountTokens::Args& args);
// Rows, words, ids and tokens lie inside their arrays. REQUIRES: CheckArgs is ok; host memory.
Status CheckIndices(const SetCounts::Desc& desc, const SetCounts::Args& args);
Status CheckIndices(const CountTokens::Desc& desc, const CountTokens::Args& args);

Support RefSetCountsSupports(const SetCounts::Desc& desc, const device::DeviceFacts& facts);
Status RefSetCounts(device::Stream& stream, const SetCounts::Desc& desc,
                    const SetCounts::Args& args);
Support RefCountTokensSupports(const CountTokens::Desc& desc, const device::DeviceFacts& facts);
Status RefCountTokens(device::Stream& stream, const CountTokens::Desc& desc,
                      const CountTokens::Args& args);

}  // namespace sluice::ops
