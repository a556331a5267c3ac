// Text from outside as people are shown it: what a terminal would obey stands there as its value,
// like \x1b. That is control characters (below U+0020, U+007F to U+009F) and bytes that are not
// UTF-8. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// On one line: newlines and tabs are control characters, too.
std::string Visible(std::string_view text);

// In quotes, visible, and cut to about 120 bytes of `text`: a name or value as a message repeats
// it.
std::string Quote(std::string_view text);

// Text that comes in pieces, for a terminal; newlines and tabs stay. One thread at a time.
class VisibleStream {
 public:
  // What can be shown of the text so far; a character whose last bytes are to come waits for them.
  std::string Add(std::string_view piece);
  // What still waits: nothing more will come.
  std::string Finish();

 private:
  std::string unfinished_;  // the beginning of a character
};

}  // namespace sluice
