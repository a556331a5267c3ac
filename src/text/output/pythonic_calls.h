// Calls as Python would write them: [name(key=value, ...), ...]. The values become JSON as they
// come.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/output/stepped_calls.h"
#include "text/output/tool_schemas.h"

namespace sluice::text {

// A literal of Python, byte by byte to JSON. What is neither goes on as it is.
class PythonLiteral {
 public:
  enum class Step {
    kTaken,
    kEnded,  // before this byte, a comma or a closing bracket
    kBroken,
  };
  Step Add(char c, std::string* json);

 private:
  void AddInText(char c, std::string* json);
  void EndWord(std::string* json);

  int depth_ = 0;
  char quote_ = 0;  // 0: outside of a text
  bool escaped_ = false;
  bool number_ = false;  // within one
  std::string word_;
};

struct PythonicForm {
  std::span<const std::string_view> begins, ends;
  bool bare = false;  // an answer may begin with a list that no mark tells, of tools that are known
};

class PythonicCalls final : public SteppedCalls {
 public:
  // Both outlive it.
  PythonicCalls(const PythonicForm& form, const ToolSchemas& schemas)
      : form_(form), schemas_(schemas), state_(form.bare ? State::kStart : State::kProse) {}
  void Finish(AnswerParts* parts, TextDelta* delta) override;

 private:
  enum class State { kStart, kProse, kBetween, kName, kKey, kValue };
  bool Step(AnswerParts* parts, TextDelta* delta) override;
  bool StepStart(AnswerParts* parts, TextDelta* delta);
  bool StepProse(AnswerParts* parts, TextDelta* delta);
  bool StepBetween(AnswerParts* parts, TextDelta* delta);
  void StepName(AnswerParts* parts, TextDelta* delta);
  void StepKey(AnswerParts* parts, TextDelta* delta);
  void StepValue(AnswerParts* parts, TextDelta* delta);
  void Begin(AnswerParts* parts, TextDelta* delta);
  void EndCall(AnswerParts* parts, TextDelta* delta);
  void GiveBack(AnswerParts* parts, TextDelta* delta);

  const PythonicForm& form_;
  const ToolSchemas& schemas_;
  State state_;
  bool marked_ = false, called_ = false, argued_ = false;
  std::string name_, key_;
  PythonLiteral value_;
};

}  // namespace sluice::text
