// What parsers of calls share that go through the text by the states of a form: text up to a mark
// of the form is text; what comes behind it is held back until it is certain to be a call.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/output/call_parser.h"
#include "text/output/marker.h"

namespace sluice::text {

class SteppedCalls : public CallParser {
 public:
  void Add(std::string_view piece, AnswerParts* parts, TextDelta* delta) override;

 protected:
  // Takes something of what is pending, or changes the state; false: more text is needed.
  // REQUIRES: something is pending.
  virtual bool Step(AnswerParts* parts, TextDelta* delta) = 0;

  // Takes what is pending up to the first of `marks` as text, and holds the mark, which it gives;
  // empty: none has come so far.
  std::string_view TakeMark(std::span<const std::string_view> marks, AnswerParts* parts,
                            TextDelta* delta);
  // Takes one of `ends` that is next, and holds it unless calls stood before it, whose end it then
  // is. kPerhaps: more text is needed.
  Match TakeEnd(std::span<const std::string_view> ends, bool called);
  void Hold(size_t bytes);
  // What was held is no call; but only `layout` behind a call is nobody's.
  void GiveHeld(bool called, std::string_view layout, AnswerParts* parts, TextDelta* delta);

  PendingText pending_;
  std::string held_;  // since the mark or the last call, until a call is certain
};

}  // namespace sluice::text
