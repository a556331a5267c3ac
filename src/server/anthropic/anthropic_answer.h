// Anthropic's message object, whole and as the events of a stream: message_start and ping, blocks
// of content that begin, grow and end, message_delta, message_stop.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/shared/answer.h"

namespace sluice::server {

class AnthropicAnswer : public AnswerFormat {
 public:
  // `call` must outlive it.
  AnthropicAnswer(const ApiCall& call, AnswerHead head);

  std::string id() const override { return id_; }
  std::string Whole(const std::vector<Choice>& choices, const Usage& usage) override;
  std::string Event(int index, const TextDelta& delta, Choice* choice) override;
  std::string End(const std::vector<Choice>& choices, const Usage& usage) override;
  std::string Broken(const Status& status) override;

 private:
  enum class Block { kNone, kThinking, kText, kToolUse };

  OrderedJson Message() const;
  std::string StopReason(const Choice& choice) const;
  OrderedJson StopSequence(const Choice& choice) const;
  std::string Start(const Usage& usage);
  // Begins a block of that kind unless one is open; `content`: as it is while it is empty.
  std::string BeginBlock(Block kind, OrderedJson content);
  std::string GrowBlock(OrderedJson delta) const;
  // Ends the block that is open, if any.
  std::string EndBlock();

  const ApiCall& call_;
  const std::string id_;
  bool started_ = false;
  Block open_ = Block::kNone;
  int block_ = 0;  // index of the block that is open, or else of the next one
};

}  // namespace sluice::server
