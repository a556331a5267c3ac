// llama.cpp's answers to /completion and /infill: one object, or a stream of them as events.
#pragma once

#include <string>
#include <vector>

#include "server/shared/answer.h"

namespace sluice::server {

class LlamaAnswer : public AnswerFormat {
 public:
  // `call` must outlive it.
  LlamaAnswer(const ApiCall& call, AnswerHead head);

  std::string Whole(const std::vector<Choice>& choices, const Usage& usage) override;
  std::string Event(int index, const TextDelta& delta, Choice* choice) override;
  std::string End(const std::vector<Choice>& choices, const Usage& usage) override;
  std::string Broken(const Status& status) override;

 private:
  OrderedJson Piece(const std::string& text, const std::vector<TokenInfo>& tokens,
                    const Usage& usage, bool stop) const;
  void AddEnd(const Choice& choice, const Usage& usage, OrderedJson* json) const;

  const ApiCall& call_;
  bool new_line_ = false;  // one was streamed
};

}  // namespace sluice::server
