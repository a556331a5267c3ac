// Calls as JSON objects, one by one or in a list, between marks of the family.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "text/output/call_object.h"
#include "text/output/call_parser.h"
#include "text/output/marker.h"

namespace sluice::text {

struct JsonCallForm {
  std::span<const std::string_view> begins, ends;
  // An answer may begin with a call that no mark tells, of a tool that is known.
  bool bare = false;
};

class JsonCalls final : public CallParser {
 public:
  // Both outlive it.
  JsonCalls(const JsonCallForm& form, const ToolSchemas& schemas)
      : form_(form), schemas_(schemas), state_(form.bare ? State::kStart : State::kProse) {}
  void Add(std::string_view piece, AnswerParts* parts, TextDelta* delta) override;
  void Finish(AnswerParts* parts, TextDelta* delta) override;

 private:
  enum class State {
    kStart,    // nothing but white space has come
    kProse,    // outside of marks
    kBetween,  // within them, where an object may begin
    kObject,
  };
  // Each takes something or changes the state; false: more text is needed.
  bool Step(AnswerParts* parts, TextDelta* delta);
  bool StepStart(AnswerParts* parts, TextDelta* delta);
  bool StepProse(AnswerParts* parts, TextDelta* delta);
  bool StepBetween(AnswerParts* parts, TextDelta* delta);
  bool StepObject(AnswerParts* parts, TextDelta* delta);
  void Hold(size_t bytes);
  void GiveBack(AnswerParts* parts, TextDelta* delta);

  const JsonCallForm& form_;
  const ToolSchemas& schemas_;
  State state_;
  PendingText pending_;
  std::string held_;     // since the mark or the last call, until a call is certain
  bool marked_ = false;  // a mark began this section
  bool called_ = false;  // a call has been seen in this section
  std::optional<CallObject> object_;
};

}  // namespace sluice::text
