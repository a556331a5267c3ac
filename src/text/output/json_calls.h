// Calls as JSON objects, one by one or in a list, between marks of the family.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "text/output/call_object.h"
#include "text/output/stepped_calls.h"

namespace sluice::text {

struct JsonCallForm {
  std::span<const std::string_view> begins, ends;
  // An answer may begin with a call that no mark tells, of a tool that is known.
  bool bare = false;
};

class JsonCalls final : public SteppedCalls {
 public:
  // Both outlive it.
  JsonCalls(const JsonCallForm& form, const ToolSchemas& schemas)
      : form_(form), schemas_(schemas), state_(form.bare ? State::kStart : State::kProse) {}
  void Finish(AnswerParts* parts, TextDelta* delta) override;

 private:
  enum class State {
    kStart,    // nothing but white space has come
    kProse,    // outside of marks
    kBetween,  // within them, where an object may begin
    kObject,
  };
  // Each takes something or changes the state; false: more text is needed.
  bool Step(AnswerParts* parts, TextDelta* delta) override;
  bool StepStart(AnswerParts* parts, TextDelta* delta);
  bool StepProse(AnswerParts* parts, TextDelta* delta);
  bool StepBetween(AnswerParts* parts, TextDelta* delta);
  bool StepObject(AnswerParts* parts, TextDelta* delta);
  void GiveBack(AnswerParts* parts, TextDelta* delta);

  const JsonCallForm& form_;
  const ToolSchemas& schemas_;
  State state_;
  bool marked_ = false;  // a mark began this section
  bool called_ = false;  // a call has been seen in this section
  std::optional<CallObject> object_;
};

}  // namespace sluice::text
