// The requests whose answers must not change, and what is compared of an answer. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sluice/engine.h"

namespace sluice::sameness {

// What an answer is made of, bit for bit. Log-probs come from all logits of a row, so they show a
// difference long before a token changes.
struct Outcome {
  struct Choice {
    std::vector<int32_t> tokens;
    std::vector<double> logprobs;
    FinishReason finish = FinishReason::kNone;
  };
  std::vector<Choice> choices;
  std::vector<double> prompt;  // log-probs of the prompt's tokens from the second on, if asked for
  Status error;
};

// `count` requests drawn from `seed`: prompts of 1 to `prompt_max` ids below `vocab`, some with a
// common beginning; greedy and seeded, with filters, penalties and several choices.
std::vector<Request> MakeSubjects(int count, int prompt_max, int answer_max, int vocab,
                                  uint64_t seed);

// A request in flight; Wait returns once its last event came.
class Pending {
 public:
  static Pending Submit(Engine& engine, Request request);
  const Outcome& Wait();
  RequestId id() const { return id_; }

 private:
  struct State;
  std::shared_ptr<State> state_;
  RequestId id_ = 0;
};

struct Difference {
  int64_t tokens = 0;     // compared
  int64_t differing = 0;  // tokens of which the id or the log-prob is another
};
// Counts missing or extra tokens, and another end, as differing.
Difference Compare(const Outcome& expected, const Outcome& actual);

}  // namespace sluice::sameness
