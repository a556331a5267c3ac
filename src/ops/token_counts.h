// What is known of every sequence where Sample runs, so that its next step may be put on the stream
// before anybody has read the one before: how long it is, the token that it drew last and guesses
// of what follows, and counts of its tokens, which penalties read (ops/sample_row.h). SetCounts
// writes whole rows of counts, where a sequence starts; ResolveRows fills in what the rows of a
// step left open; KeepDrawn adds what Sample has drawn.
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

// Fills in rows of sequences whose length the host does not know. A position p below 0 becomes the
// length of the row's slot plus -p; a target t below -1 becomes the slot's token number -1 - t.
struct ResolveRows {
  static constexpr std::string_view kName = "resolve_rows";
  struct Desc {
    std::string ToString() const;
  };
  struct Args {
    Tensor rows;     // U8 [rows, sizeof(SampleRow)], in place
    Tensor lengths;  // I32 [slots]
    Tensor tokens;   // I32 [slots, tokens]: the one that was drawn last, and guesses
  };
};

// What a sequence's rows have drawn counts as far as each drew its target, the next row's token,
// and none is degenerate; the first that did not is the last one that counts. Those rows are marked
// as kept, their tokens are counted where the sequence has counts, but for a degenerate row's, and
// the last one's position and token become the length and the last token of the slot. For load
// tests a share of drafts may be taken for what was drawn: then a row without a mask that has a
// target gets it as its token where UniformDraw of its seed, choice and position, for kAccept, is
// below `taken`. REQUIRES: no two sequences name the same slot or row of counts.
struct KeepDrawn {
  static constexpr std::string_view kName = "keep_drawn";
  struct Desc {
    int64_t vocab = 0;
    std::string ToString() const;
  };
  struct Args {
    Tensor rows;         // U8 [rows, sizeof(SampleRow)], as Sample read them
    Tensor outputs;      // U8 [rows, sizeof(SampleOutput)], as Sample left them
    Tensor counts;       // I32 [count rows, vocab], or empty where no row has counts
    Tensor lengths;      // I32 [slots]
    Tensor tokens;       // I32 [slots, tokens], of which the first of a slot is written
    double taken = 0.0;  // 0 to 1; 0: tokens are what was drawn
  };
};

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const SetCounts::Desc& desc, const SetCounts::Args& args);
Status CheckArgs(const ResolveRows::Desc& desc, const ResolveRows::Args& args);
Status CheckArgs(const KeepDrawn::Desc& desc, const KeepDrawn::Args& args);
// Rows, words, ids, tokens and slots lie inside their arrays. REQUIRES: CheckArgs is ok; host
// memory.
Status CheckIndices(const SetCounts::Desc& desc, const SetCounts::Args& args);
Status CheckIndices(const ResolveRows::Desc& desc, const ResolveRows::Args& args);
Status CheckIndices(const KeepDrawn::Desc& desc, const KeepDrawn::Args& args);

Support RefSetCountsSupports(const SetCounts::Desc& desc, const device::DeviceFacts& facts);
Status RefSetCounts(device::Stream& stream, const SetCounts::Desc& desc,
                    const SetCounts::Args& args);
Support RefResolveRowsSupports(const ResolveRows::Desc& desc, const device::DeviceFacts& facts);
Status RefResolveRows(device::Stream& stream, const ResolveRows::Desc& desc,
                      const ResolveRows::Args& args);
Support RefKeepDrawnSupports(const KeepDrawn::Desc& desc, const device::DeviceFacts& facts);
Status RefKeepDrawn(device::Stream& stream, const KeepDrawn::Desc& desc,
                    const KeepDrawn::Args& args);

}  // namespace sluice::ops
