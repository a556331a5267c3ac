// CallObject: a call as a JSON object, {"name": ..., "arguments": {...}}, read byte by byte. The
// arguments go on as they come, as the model wrote them, once the name is known. One per object;
// not thread-safe.
#pragma once

#include <string>

#include "text/output/answer_parts.h"
#include "text/output/tool_schemas.h"

namespace sluice::text {

// Where a JSON value ends. What is within its brackets is not checked.
class JsonValueEnd {
 public:
  enum class Step {
    kTaken,
    kEnds,   // with this byte
    kEnded,  // before this byte
  };
  Step Add(char c);

 private:
  int64_t depth_ = 0;
  bool begun_ = false, string_ = false, escaped_ = false;
};

class CallObject {
 public:
  enum class State {
    kMore,
    kDone,    // with this byte; the call has begun
    kBroken,  // this byte cannot follow; where the call has begun it ends here
  };
  // Behind the opening brace. `known`: only these tools may be called, and with arguments alone;
  // null: any.
  explicit CallObject(const ToolSchemas* known) : known_(known) {}
  State Add(char c, AnswerParts* parts, TextDelta* delta);

 private:
  enum class At { kKeyOrEnd, kKey, kColon, kValue, kAfterValue };
  enum class Member { kOther, kName, kArguments };
  State BeginValue(char c, AnswerParts* parts, TextDelta* delta);
  State AddToValue(char c, AnswerParts* parts, TextDelta* delta);
  State Close(AnswerParts* parts, TextDelta* delta);
  bool EndValue();
  void Begin(AnswerParts* parts, TextDelta* delta);

  const ToolSchemas* const known_;
  At at_ = At::kKeyOrEnd;
  Member member_ = Member::kOther;
  std::string key_;
  JsonValueEnd value_;
  std::string name_json_, name_;
  std::string held_arguments_;  // that came before the name
  bool begun_ = false;
  bool has_arguments_ = false;  // whole
};

}  // namespace sluice::text
