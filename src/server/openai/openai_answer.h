// OpenAI's answer objects for chat and for plain completions: whole ones and the chunks of a
// stream.
#pragma once

#include <string>
#include <vector>

#include "server/openai/logprobs.h"
#include "server/shared/answer.h"

namespace sluice::server {

class OpenAiAnswer : public AnswerFormat {
 public:
  // `call` must outlive it.
  OpenAiAnswer(const ApiCall& call, AnswerHead head);

  std::string id() const override { return id_; }
  std::string Whole(const std::vector<Choice>& choices, const Usage& usage) override;
  std::string Event(int index, const TextDelta& delta, Choice* choice) override;
  std::string End(const std::vector<Choice>& choices, const Usage& usage) override;
  std::string Broken(const Status& status) override;

 private:
  std::vector<std::string> Chunks(int index, const TextDelta& delta, Choice* choice) const;
  // `more`: members beside the choices.
  std::string Chunk(const std::string& choices, const TextDelta* last,
                    const std::string& more = {}) const;
  static OrderedJson TokenIds(const std::vector<TokenInfo>& tokens);
  TokenNames Names() const;
  // A member of a streamed choice, or nothing.
  std::string TokenIdsMember(const TextDelta& delta) const;
  // The same of the prompt, in the first event that has them.
  static std::string PromptIdsMember(const TextDelta& delta);
  OrderedJson Message(const Choice& choice) const;
  std::string ChatChoice(int index, const TextDelta& delta) const;
  std::string CompletionChoice(int index, const TextDelta& delta, Choice* choice) const;
  OrderedJson WholeChoice(int index, const Choice& choice) const;
  OrderedJson StopReason(const std::string& match) const;
  const std::string& EchoOf(int index) const;

  const ApiCall& call_;
  const AnswerHead head_;
  const std::string id_;
  std::string chunk_head_;  // everything before the choices of a chunk
};

OrderedJson UsageJson(const Usage& usage);

}  // namespace sluice::server
