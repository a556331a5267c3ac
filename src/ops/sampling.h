// Sampling: rows of logits to tokens. One stage order everywhere: bias, penalties, masks,
// temperature, softmax, top-k, renormalise, top-p, min-p, draw. Each row depends on itself alone.
// The draw walks the kept tokens by ascending id. The arithmetic is that of ops/sampling_rules.h,
// so implementations agree to the bit.
//
// A row is degenerate when a raw logit is NaN or +inf, all raw logits are equal to zero or -inf, or
// nothing is left after the masks. Its token is the argmax of the raw logits (NaN ignored, ties
// take the lowest id, an all-NaN row gives 0), it reports so, and no other row notices.
#pragma once

#include <span>

#include "ops/op.h"
#include "ops/tensor.h"

namespace sluice::ops {

// A change to one logit, in this order: + bias; by the repetition penalty (positive logits divided,
// others multiplied); - subtract; banned.
struct LogitEdit {
  int32_t id = 0;  // < vocab
  float bias = 0.0f;
  float repetition = 1.0f;
  float subtract = 0.0f;  // presence + frequency * count
  bool banned = false;
};

struct SampleRow {
  bool draw = true;          // false: only score `target`
  int32_t target = -1;       // whose raw log-prob is wanted when draw is false
  float temperature = 1.0f;  // 0: argmax
  int32_t top_k = 0;         // <= 0: off
  float top_p = 1.0f;
  float min_p = 0.0f;
  uint64_t seed = 0;
  int32_t choice = 0;
  int64_t position = 0;                    // absolute, of the token that is drawn
  int32_t edit_begin = 0, edit_count = 0;  // in Args::edits, ids ascending, each once
  int32_t mask_row = -1;                   // row of Args::masks, or none
  int32_t top_logprobs = -1;               // -1: no log-probs at all
  int32_t distribution_row = -1;           // row of Args::distributions, or none
};

struct SampleOutput {
  int32_t token = 0;
  bool degenerate = false;
  float logprob = 0.0f;  // raw, of the token (or target); set when top_logprobs >= 0
  int32_t rank = 0;      // how many ids have a larger raw logit, or an equal one and a lower id
  float processed_logprob = 0.0f;  // after bias, penalties, masks, temperature; set with logprob
};

struct Sample {
  static constexpr std::string_view kName = "sample";
  struct Desc {
    int64_t vocab = 0;
    int32_t top_logprobs_max = 20;
    std::string ToString() const;
  };
  struct Args {
    Tensor logits;  // F32 [rows, vocab]; not changed
    std::span<const SampleRow> rows;
    std::span<const LogitEdit> edits;
    Tensor masks;      // I32 bit words [mask rows, (vocab + 31) / 32], set: allowed; or empty
    Tensor workspace;  // F32 [threads or more, 2 * vocab]
    std::span<SampleOutput> outputs;  // one per row
    Tensor top_ids;                   // I32 [rows, top_logprobs_max + 1], best raw logit first
    Tensor top_logprobs;              // F32, the same shape
    Tensor distributions;  // F32 [rows that asked, vocab]: log-softmax of the raw logits; or empty
  };
};

Support RefSampleSupports(const Sample::Desc& desc, const device::DeviceFacts& facts);
Status RefSample(device::Stream& stream, const Sample::Desc& desc, const Sample::Args& args);

// One row of RefSample; `workspace` is F32 [2 * vocab]. For implementations that share out rows.
void SampleOneRow(const Sample::Desc& desc, const Sample::Args& args, int64_t row,
                  std::span<float> workspace);

}  // namespace sluice::ops
