// Harmony, the format of gpt-oss: an answer is a row of messages, each with a header that names its
// channel and whom it is for. Analysis is thinking, what is for a function is a call, all else is
// text.
#pragma once

#include <string>
#include <string_view>

#include "text/output/call_parser.h"
#include "text/output/marker.h"

namespace sluice::text {

class Harmony final : public CallParser {
 public:
  void Add(std::string_view piece, AnswerParts* parts, TextDelta* delta) override;
  void Finish(AnswerParts* parts, TextDelta* delta) override;

 private:
  enum class State { kHeader, kBody };
  enum class Kind { kText, kThinking, kCall };
  bool StepHeader(AnswerParts* parts, TextDelta* delta);
  bool StepBody(AnswerParts* parts, TextDelta* delta);
  void BeginBody(std::string_view header, AnswerParts* parts, TextDelta* delta);
  void Put(std::string_view piece, AnswerParts* parts, TextDelta* delta);
  void EndBody(AnswerParts* parts, TextDelta* delta);

  State state_ = State::kHeader;
  Kind kind_ = Kind::kText;
  PendingText pending_;
  bool wrote_ = false;  // a message of text has ended
};

}  // namespace sluice::text
