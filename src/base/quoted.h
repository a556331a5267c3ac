// A value from outside as a message repeats it. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// In quotes, cut to about 120 bytes, without what a terminal would obey.
std::string Quoted(std::string_view text);

}  // namespace sluice
