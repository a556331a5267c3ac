// What sampling reads and writes per row, as plain values that host and device share: their bytes
// are copied as they are. Offsets are part of the contract; kernels in another language mirror
// them.
#pragma once

#include <cstddef>
#include <cstdint>

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

// One word of a sequence's counts: this bit where the id is in the prompt, and how often it is in
// the answer.
inline constexpr uint32_t kInPrompt = uint32_t{1} << 31;

inline constexpr int32_t kCompared = -1, kSure = -2;  // SampleRow::guess_row

struct SampleRow {
  bool draw = true;       // false: only score `target`
  bool filtered = false;  // where it draws, what `distribution_row` gets
  // Its rank and its likeliest ids are told among those that its mask allows; behind these, where
  // there are too few, stand others with the log-prob kZeroProbability.
  bool top_allowed = false;
  // When draw is false, the id whose raw log-prob is wanted; else the draft that comes next, or -1.
  // ResolveRows fills in what is below -1.
  int32_t target = -1;
  float temperature = 1.0f;  // 0: argmax
  int32_t top_k = 0;         // <= 0: off
  float top_p = 1.0f;
  float min_p = 0.0f;
  uint64_t seed = 0;
  int32_t choice = 0;
  // Absolute, of the token that is drawn. ResolveRows fills in what is below 0.
  int64_t position = 0;
  int32_t edit_begin = 0, edit_count = 0;  // in Args::edits, ids ascending, each once
  int32_t mask_row = -1;                   // row of Args::masks, or none
  int32_t top_logprobs = -1;               // -1: no log-probs at all
  int32_t distribution_row = -1;           // row of Args::distributions, or none
  // Row of Args::counts, or none: the penalties then come as edits, if there are any.
  int32_t counts_row = -1;
  float repetition_penalty = 1.0f;  // of what is in the prompt or the answer
  float presence_penalty = 0.0f;    // of what is in the answer, as the next
  float frequency_penalty = 0.0f;
  // So many rows before this one are of the same sequence, and their targets count as drawn.
  int32_t drafts = 0;
  int32_t slot = -1;  // of its sequence; or none, and what it draws is kept nowhere
  // How the draft at `target` becomes what a row draws that is not greedy. kCompared: not at all.
  // Else by rejection sampling (ops/rejection_rules.h): the draft was drawn from the softmax of a
  // row of Args::guesses at this row's temperature, or, kSure, it was the only one possible.
  int32_t guess_row = kCompared;

  // It draws the likeliest id, not by lot.
  constexpr bool greedy() const { return temperature == 0.0f || top_k == 1; }
};

// The row by which a draft for `row` is drawn: from all of the softmax of its logits, which
// Args::guesses then are. A greedy one takes the likeliest.
constexpr SampleRow Unfiltered(SampleRow row) {
  const SampleRow none;
  if (row.greedy()) row.temperature = 0.0f;
  row.top_k = none.top_k;
  row.top_p = none.top_p;
  row.min_p = none.min_p;
  row.repetition_penalty = none.repetition_penalty;
  row.presence_penalty = none.presence_penalty;
  row.frequency_penalty = none.frequency_penalty;
  return row;
}

struct SampleOutput {
  int32_t token = 0;
  bool degenerate = false;
  bool kept = false;     // KeepDrawn: it counts, since all drafts before it were drawn
  float logprob = 0.0f;  // raw, of the token (or target); set when top_logprobs >= 0
  // How many ids, of a row with top_allowed how many allowed ones, have a larger raw logit, or an
  // equal one and a lower id.
  int32_t rank = 0;
  float processed_logprob = 0.0f;  // after bias, penalties, masks, temperature; set with logprob
};

static_assert(sizeof(LogitEdit) == 20 && offsetof(LogitEdit, subtract) == 12 &&
              offsetof(LogitEdit, banned) == 16);
static_assert(sizeof(SampleRow) == 96 && offsetof(SampleRow, filtered) == 1 &&
              offsetof(SampleRow, top_allowed) == 2 && offsetof(SampleRow, target) == 4 &&
              offsetof(SampleRow, temperature) == 8 && offsetof(SampleRow, top_k) == 12 &&
              offsetof(SampleRow, top_p) == 16 && offsetof(SampleRow, min_p) == 20 &&
              offsetof(SampleRow, seed) == 24 && offsetof(SampleRow, choice) == 32 &&
              offsetof(SampleRow, position) == 40 && offsetof(SampleRow, edit_begin) == 48 &&
              offsetof(SampleRow, edit_count) == 52 && offsetof(SampleRow, mask_row) == 56 &&
              offsetof(SampleRow, top_logprobs) == 60 &&
              offsetof(SampleRow, distribution_row) == 64 &&
              offsetof(SampleRow, counts_row) == 68 &&
              offsetof(SampleRow, repetition_penalty) == 72 &&
              offsetof(SampleRow, presence_penalty) == 76 &&
              offsetof(SampleRow, frequency_penalty) == 80 && offsetof(SampleRow, drafts) == 84 &&
              offsetof(SampleRow, slot) == 88 && offsetof(SampleRow, guess_row) == 92);
static_assert(sizeof(SampleOutput) == 20 && offsetof(SampleOutput, degenerate) == 4 &&
              offsetof(SampleOutput, kept) == 5 && offsetof(SampleOutput, logprob) == 8 &&
              offsetof(SampleOutput, rank) == 12 &&
              offsetof(SampleOutput, processed_logprob) == 16);

}  // namespace sluice::ops
