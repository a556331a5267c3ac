// The whole of a text as a number, as C++ writes one in decimal. Any thread.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace sluice {

// Nothing where the text is anything else, is empty, or is out of the type's range.
template <class Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? std::optional<Number>(number) : std::nullopt;
}

// Nor where it is below `low` or above `high`.
template <class Number>
std::optional<Number> ParseNumber(std::string_view text, std::type_identity_t<Number> low,
                                  std::type_identity_t<Number> high) {
  const std::optional<Number> number = ParseNumber<Number>(text);
  return number && *number >= low && *number <= high ? number : std::nullopt;
}

}  // namespace sluice
