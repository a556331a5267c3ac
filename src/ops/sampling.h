// Sampling: rows of logits to tokens. One stage order everywhere: bias, penalties, masks,
// softmax, top-k, renormalise, top-p, min-p, draw. Each row depends on itself alone.
// The draw walks the kept tokens by ascending id. The arithmetic is that of ops/sampling_rules.h,
// so implementations agree to the bit.
//
// A row is degenerate when a raw logit is NaN or +inf, all raw logits are equal to zero or -inf, or
// nothing is left after the masks. Its token is the argmax of the raw logits (NaN ignored, ties
// take the lowest id, an all-NaN row gives 0), it reports so, and no other row notices.
//
// What a row names outside its array, a target, edits, drafts, a row of counts, of masks, of
// guesses or of distributions, is kInvalidArgument where the rows lie in host memory
// (CheckIndices). Elsewhere it is as if the row did not name it, and the log-prob of such a target
// is that of a logit of -inf.
#pragma once

#include <span>

#include "ops/op.h"
#include "ops/sample_row.h"
#include "ops/tensor.h"

namespace sluice::ops {

struct Sample {
  static constexpr std::string_view kName = "sample";
  struct Desc {
    int64_t vocab = 0;
    int32_t top_logprobs_max = 20;
    bool filtered = false;  // rows may ask for what is left behind the filters
    std::string ToString() const;
  };
  struct Args {
    Tensor logits;        // F32 [rows, vocab]; not changed
    Tensor rows;          // U8 [rows, sizeof(SampleRow)]
    Tensor edits;         // U8 [edits, sizeof(LogitEdit)], or empty: none
    Tensor counts;        // I32 [count rows, vocab] of sequences with penalties; or empty
    Tensor masks;         // I32 bit words [mask rows, (vocab + 31) / 32], set: allowed; or empty
    Tensor outputs;       // U8 [rows, sizeof(SampleOutput)]
    Tensor top_ids;       // I32 [rows, top_logprobs_max + 1], best raw logit first
    Tensor top_logprobs;  // F32, the same shape
    // F32 [rows that asked, vocab], or empty: the log-softmax of the raw logits, or, of a filtered
    // row, the log-probs by which it draws. Of a degenerate row all are kZeroProbability.
    Tensor distributions;
    // What drafts were drawn from, F32 logits [guess rows, guesses], and by id its number among
    // those, outside of them where it is none, I32 [vocab]. Both may be empty, and the second is
    // where the numbers are the ids.
    Tensor guesses, guess_of;
  };
};

// The arrays of a call, one element per row (or edit). REQUIRES: they lie in host memory.
std::span<const SampleRow> RowsOf(const Sample::Args& args);
std::span<const LogitEdit> EditsOf(const Sample::Args& args);
std::span<SampleOutput> OutputsOf(const Sample::Args& args);

// A row that nobody uses: the padding of a captured batch. Its output means nothing.
inline SampleRow PaddingRow() { return {.draw = false, .target = 0}; }

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const Sample::Desc& desc, const Sample::Args& args);
// Targets, edits, drafts and rows of counts, masks and distributions lie inside their arrays.
// REQUIRES: CheckArgs is ok; host memory.
Status CheckIndices(const Sample::Desc& desc, const Sample::Args& args);

Support RefSampleSupports(const Sample::Desc& desc, const device::DeviceFacts& facts);
Status RefSample(device::Stream& stream, const Sample::Desc& desc, const Sample::Args& args);

// One row of RefSample; `workspace` is F32 [2 * vocab]. For implementations that share out rows.
void SampleOneRow(const Sample::Desc& desc, const Sample::Args& args, int64_t row,
                  std::span<float> workspace);

}  // namespace sluice::ops
