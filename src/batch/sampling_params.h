// How one sequence's tokens are drawn. Plain data; validated where a request enters the engine.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sluice/sampling.h"

namespace sluice::batch {

struct SamplingParams {
  float temperature = 1.0f;         // 0: greedy
  int32_t top_k = 0;                // <= 0: off; exactly K tokens are kept, ties by lowest id
  float top_p = 1.0f;               // 1: off
  float min_p = 0.0f;               // 0: off; relative to the largest probability
  float repetition_penalty = 1.0f;  // 1: off; over prompt and answer
  float presence_penalty = 0.0f;    // over the answer
  float frequency_penalty = 0.0f;   // over the answer
  int32_t no_repeat_ngram = 0;      // 0: off; over prompt and answer
  int32_t min_tokens = 0;           // end-of-generation and stop ids are masked before this many
  uint64_t seed = 0;                // always set; the engine draws one for a request without
  int32_t choice = 0;               // which of `n` answers this sequence is; part of the random key
  int32_t top_logprobs = -1;        // log-probs of the K best beside the chosen; -1: none at all
  bool top_allowed = false;         // of drawn tokens: of those that their mask allows, the K best
  int32_t prompt_top_logprobs = -1;  // the same of scored prompt tokens (RowPurpose::kScore)
  Distribution distribution = Distribution::kNone;    // of drawn tokens, which comes back whole
  std::vector<std::pair<int32_t, float>> logit_bias;  // (id, bias); ids outside are ignored
  std::vector<int32_t> end_ids;  // masked while fewer than min_tokens were drawn

  // Whether a token may end the answer behind so many that were drawn.
  bool MayEnd(int32_t drawn) const { return drawn >= min_tokens; }
  // The likeliest token is drawn, not one by lot.
  bool greedy() const { return temperature == 0.0f || top_k == 1; }
  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};

// Whether what was drawn before changes what is drawn next: what is counted for each id.
inline bool HasPenalties(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.presence_penalty != 0.0f ||
         params.frequency_penalty != 0.0f;
}

}  // namespace sluice::batch
