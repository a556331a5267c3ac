// Gemma's calls: call:NAME{key:value,...}, where keys are bare words and texts stand between marks
// of their own. They become JSON as they come.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/output/stepped_calls.h"

namespace sluice::text {

struct GemmaForm {
  std::string_view begin, quote, end;
};

class GemmaCalls final : public SteppedCalls {
 public:
  // `form` outlives it.
  explicit GemmaCalls(const GemmaForm& form) : form_(form) {}
  void Finish(AnswerParts* parts, TextDelta* delta) override;

 private:
  enum class State { kProse, kName, kKey, kValue, kText, kBehind };
  bool Step(AnswerParts* parts, TextDelta* delta) override;
  bool StepProse(AnswerParts* parts, TextDelta* delta);
  bool StepName(AnswerParts* parts, TextDelta* delta);
  bool StepKey(AnswerParts* parts, TextDelta* delta);
  bool StepValue(AnswerParts* parts, TextDelta* delta);
  bool StepText(AnswerParts* parts, TextDelta* delta);
  bool StepBehind();
  void Open(char bracket, AnswerParts* parts, TextDelta* delta);
  void Close(char bracket, AnswerParts* parts, TextDelta* delta);

  const GemmaForm& form_;
  State state_ = State::kProse;
  std::string open_;  // brackets of the present call
};

}  // namespace sluice::text
