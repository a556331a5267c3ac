// Ollama's answers: one object, or a stream of such objects, a line each. Times are in nanoseconds.
#pragma once

#include <string>
#include <vector>

#include "server/shared/answer.h"

namespace sluice::server {

class OllamaAnswer : public AnswerFormat {
 public:
  // `call` must outlive it.
  OllamaAnswer(const ApiCall& call, AnswerHead head);

  const char* stream_type() const override { return "application/x-ndjson"; }
  std::string Whole(const std::vector<Choice>& choices, const Usage& usage) override;
  std::string Event(int index, const TextDelta& delta, Choice* choice) override;
  std::string End(const std::vector<Choice>& choices, const Usage& usage) override;
  std::string Broken(const Status& status) override;

 private:
  // Of a piece of text or thinking, without what the end of the answer has.
  OrderedJson Piece(const std::string& text, const std::string& thinking) const;
  void AddEnd(const Choice& choice, const Usage& usage, OrderedJson* json) const;

  const ApiCall& call_;
  std::vector<ToolCallDelta> calls_;  // of a stream so far
};

}  // namespace sluice::server
