// The white space between the parts of an answer, as JSON has it.
#pragma once

#include <string_view>

namespace sluice::text {

inline constexpr std::string_view kSpace = " \t\r\n";

inline bool IsSpace(char c) { return kSpace.find(c) != std::string_view::npos; }

}  // namespace sluice::text
