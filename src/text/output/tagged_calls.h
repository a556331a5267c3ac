// Calls whose arguments stand one by one between tags, as plain text. What is JSON and what a text
// is told by the tool's schema, else by how it looks. One per answer.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/output/stepped_calls.h"
#include "text/output/tool_schemas.h"

namespace sluice::text {

// <section> <call NAME name_end> <key KEY key_end value VALUE value_end>... <call_end>
// <section_end>
struct TaggedCallForm {
  // Of sections; with `call` among them a call may stand alone, if its tool is known.
  std::span<const std::string_view> begins;
  std::string_view call;      // empty: the section is one call
  std::string_view name_end;  // empty: the line's end, or what may follow the name
  std::string_view key, key_end;
  std::string_view value;  // between key and value, behind white space; may be empty
  // Alone, and behind a line's end of its own; the same where values have no lines of their own.
  std::string_view value_end, value_end_line;
  std::string_view call_end, section_end;
};

class TaggedCalls final : public SteppedCalls {
 public:
  // Both outlive it.
  TaggedCalls(const TaggedCallForm& form, const ToolSchemas& schemas)
      : form_(form), schemas_(schemas) {}
  void Finish(AnswerParts* parts, TextDelta* delta) override;

 private:
  enum class State { kProse, kSection, kName, kArguments, kKey, kValueMark, kValue };
  bool Step(AnswerParts* parts, TextDelta* delta) override;
  bool StepProse(AnswerParts* parts, TextDelta* delta);
  bool StepSection(AnswerParts* parts, TextDelta* delta);
  bool StepName(AnswerParts* parts, TextDelta* delta);
  bool StepArguments(AnswerParts* parts, TextDelta* delta);
  bool StepKey(AnswerParts* parts, TextDelta* delta);
  bool StepValueMark();
  bool StepValue(AnswerParts* parts, TextDelta* delta);
  void BeginArgument(std::string_view head, AnswerParts* parts, TextDelta* delta);
  void AddToValue(std::string_view piece, AnswerParts* parts, TextDelta* delta);
  void EndValue(AnswerParts* parts, TextDelta* delta);
  void EndCall(AnswerParts* parts, TextDelta* delta);
  void GiveBack(AnswerParts* parts, TextDelta* delta);

  const TaggedCallForm& form_;
  const ToolSchemas& schemas_;
  State state_ = State::kProse;
  bool called_ = false;  // a call has been seen in this section
  bool bare_ = false;    // the present call has no section
  std::string name_;     // of the present call
  std::string key_;      // of its present argument
  ToolSchemas::Kind kind_ = ToolSchemas::Kind::kAny;
  bool argued_ = false;  // it has an argument
  bool value_begun_ = false;
  bool streams_ = false;  // the value is a text for certain
  std::string value_;     // else: as far as it has come
};

}  // namespace sluice::text
