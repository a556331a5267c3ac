// OpenAI's /v1/decisions: questions about an input, each with a fixed set of answers, of which the
// model's probabilities are told. Every answer is scored behind its question; nothing is generated.
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/shared/answer.h"
#include "server/shared/api_call.h"
#include "sluice/engine.h"

namespace sluice::server {

inline constexpr size_t kQuestionsMax = 64;

struct Question {
  enum class Kind { kPredicate, kChoice, kScore };
  struct Option {
    OrderedJson value;  // as the client has it
    std::string text;   // as the model would say it
    int tokens = 0;     // of the text; set by ScoreOptions
  };
  Kind kind = Kind::kPredicate;
  OrderedJson name;             // a string or null
  std::vector<Option> options;  // of a predicate: yes, no
  ChatPrompt prompt;            // the input and the question
};

// Pure.
Result<std::vector<Question>> ParseDecisions(std::string_view body, const ModelFacts& model);

// A request for each option of each question, in that order. kCancelled soon after `gone` has
// become true.
Result<ApiCall> ScoreOptions(const Engine& engine, const ModelFacts& model,
                             const std::atomic<bool>& gone, std::vector<Question>* questions);

class DecisionsAnswer : public AnswerFormat {
 public:
  // `call` must outlive it.
  DecisionsAnswer(const ApiCall& call, std::vector<Question> questions)
      : call_(call), questions_(std::move(questions)) {}

  std::string Whole(const std::vector<Choice>& choices, const Usage& usage) override;

 private:
  const ApiCall& call_;
  const std::vector<Question> questions_;
};

}  // namespace sluice::server
