// CallParser: how one family of models writes calls of tools in its answers. One per answer, fed
// with the text behind the thinking, cut anywhere; what it makes of a text does not depend on the
// cuts. Its memory and the text that it holds back are bounded. Not thread-safe.
#pragma once

#include <cstddef>
#include <string_view>

#include "sluice/request.h"
#include "text/output/answer_parts.h"

namespace sluice::text {

// Of what begins like a call until its name is certain. A text that does not become one is given
// back as text; more than this is not waited for.
inline constexpr size_t kLookAheadMax = 16u << 10;

class CallParser {
 public:
  virtual ~CallParser() = default;
  virtual void Add(std::string_view piece, AnswerParts* parts, TextDelta* delta) = 0;
  // The answer ends here.
  virtual void Finish(AnswerParts* parts, TextDelta* delta) = 0;
};

}  // namespace sluice::text
