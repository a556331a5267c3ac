// Calls as a name, a mark, and a JSON object of arguments, in marks of the family.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "text/output/call_object.h"
#include "text/output/json_calls.h"
#include "text/output/stepped_calls.h"

namespace sluice::text {

// What stands before the mark of the arguments, and where the name is within it.
enum class HeaderKind {
  kName,        // NAME
  kAfterMark,   // kind of tool, mark, NAME
  kBeforeMark,  // NAME, or NAME, mark, what the model takes for an id
  kIndexed,     // functions.NAME:INDEX, which is the call's id, too
};

struct HeaderCallForm {
  std::span<const std::string_view> begins;  // of a section of calls
  std::string_view call;                     // of each call in it; empty: the section is one call
  HeaderKind header = HeaderKind::kName;
  std::string_view header_mark;  // of kAfterMark and kBeforeMark
  std::string_view arguments;    // the mark between header and arguments
  // Behind the arguments: of the call and of the section.
  std::span<const std::string_view> ends, section_ends;
  // How calls were written before: behind the same mark, as a list. Null: never.
  const JsonCallForm* list = nullptr;
};

class HeaderCalls final : public SteppedCalls {
 public:
  // Both outlive it.
  HeaderCalls(const HeaderCallForm& form, const ToolSchemas& schemas)
      : form_(form), schemas_(schemas) {}
  void Add(std::string_view piece, AnswerParts* parts, TextDelta* delta) override;
  void Finish(AnswerParts* parts, TextDelta* delta) override;

 private:
  enum class State { kProse, kSection, kHeader, kArguments, kBehind };
  bool Step(AnswerParts* parts, TextDelta* delta) override;
  bool StepProse(AnswerParts* parts, TextDelta* delta);
  bool StepSection(AnswerParts* parts, TextDelta* delta);
  bool StepHeader(AnswerParts* parts, TextDelta* delta);
  bool StepArguments(AnswerParts* parts, TextDelta* delta);
  bool StepBehind();
  bool BeginCall(std::string_view header, AnswerParts* parts, TextDelta* delta);
  void GiveBack(AnswerParts* parts, TextDelta* delta);

  const HeaderCallForm& form_;
  const ToolSchemas& schemas_;
  State state_ = State::kProse;
  JsonValueEnd value_;
  bool value_begun_ = false;
  std::unique_ptr<JsonCalls> list_;  // has taken over
};

}  // namespace sluice::text
