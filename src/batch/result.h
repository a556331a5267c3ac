// StepResult: what one step gave, in the order of the plan's rows. Filled by sample/, read by
// schedule/. Plain data.
#pragma once

#include <cstdint>
#include <vector>

#include "batch/plan.h"

namespace sluice::batch {

enum class RowStatus : uint8_t {
  kOk,
  kDegenerate,  // logits were NaN, infinite or all equal to -inf; the token is the argmax; the
                // request ends. In a verify entry the rows end with it
};

struct TokenLogprob {
  int32_t id = -1;
  float logprob = 0.0f;

  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

// One token that a step produced, or one prompt token that it scored.
struct ResultToken {
  int32_t id = -1;
  float logprob = 0.0f;  // of the raw logits; set when the sequence asked for log-probs, else 0
  int32_t rank = 0;      // 0: the most likely of the row; set with logprob
  int32_t top_begin =
      0;  // its top-k in StepResult::top, best first, the chosen one always among them
  int32_t top_count = 0;
  int32_t distribution = -1;  // its row of StepResult::distributions, or none

  friend bool operator==(const ResultToken&, const ResultToken&) = default;
};

// A token that may come behind those of an entry, as something guesses that works beside the model.
struct GuessedToken {
  int32_t id = -1;
  int32_t parent = 0;    // the number, from 1 on, of the entry's guess that it follows; 0: none
  float logprob = 0.0f;  // there

  friend bool operator==(const GuessedToken&, const GuessedToken&) = default;
};

// One plan entry's outcome.
struct ResultEntry {
  SequenceId sequence = 0;
  RowStatus status = RowStatus::kOk;
  int32_t token_begin = 0;  // drawn tokens (0 for a chunk that ends before the prompt does, 1, or
  int32_t token_count = 0;  // accepted + 1) in StepResult::tokens
  // Of the drafts among its tokens, how many at the end lie aside of the first branch, so that
  // their KV is not where it belongs.
  int32_t aside = 0;
  int32_t score_begin = 0;  // scored prompt tokens in StepResult::scores
  int32_t score_count = 0;
  // Of a model that embeds, the vector of the entry's tokens in StepResult::vectors.
  int32_t vector_begin = 0;
  int32_t vector_size = 0;
  // Where guesses are trees, its own in StepResult::guesses, by depth.
  int32_t guess_begin = 0;
  int32_t guess_count = 0;

  friend bool operator==(const ResultEntry&, const ResultEntry&) = default;
};

struct StepResult {
  uint64_t step = 0;
  std::vector<ResultEntry> entries;  // one per plan entry, in its order
  std::vector<ResultToken> tokens;
  std::vector<ResultToken> scores;
  std::vector<TokenLogprob> top;
  std::vector<float> vectors;
  std::vector<GuessedToken> guesses;
  int32_t distribution_size = 0;     // the vocabulary, where some row asked
  std::vector<float> distributions;  // [rows that asked, vocab] log-probs

  // Leaves the result of `new_step` without entries; the buffers stay.
  void Reset(uint64_t new_step) {
    step = new_step;
    entries.clear();
    tokens.clear();
    scores.clear();
    top.clear();
    vectors.clear();
    guesses.clear();
    distribution_size = 0;
    distributions.clear();
  }
  friend bool operator==(const StepResult&, const StepResult&) = default;
};

}  // namespace sluice::batch
