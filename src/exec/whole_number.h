// Numbers in the texts of options that name layers and steps. Any thread.
#pragma once

#include <charconv>
#include <string_view>

namespace sluice::exec {

// A whole number of at most nine digits; below 0: the text is none.
inline int WholeNumber(std::string_view text) {
  int number = -1;
  if (text.empty() || text.size() > 9 || text.front() == '-') return -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : -1;
}

}  // namespace sluice::exec
