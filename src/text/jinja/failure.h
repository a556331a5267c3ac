// How code inside the interpreter reports an error: it throws a Failure, which ChatTemplate::Parse
// and Render catch and turn into a Status. Never leaves this folder. Any thread.
#pragma once

#include <cstddef>
#include <string>

#include "base/str_cat.h"

namespace sluice::text::jinja {

// How much of a name or value from the template or the conversation stands in a message.
constexpr size_t kQuotedBytesMax = 100;

struct Failure {
  std::string message;    // without the line
  bool verbatim = false;  // raise_exception's text, passed on as it is
};

// An error in a template's syntax, with its line; caught by ChatTemplate::Parse.
struct SyntaxFailure {
  std::string message;
  int line;
};

template <class... Parts>
[[noreturn]] void Fail(const Parts&... parts) {
  throw Failure{StrCat(parts...)};
}

}  // namespace sluice::text::jinja
