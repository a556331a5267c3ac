// How many there are of something, as a sentence says it. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/str_cat.h"

namespace sluice {

// "1 token", "2 tokens". `one`: a noun whose plural ends with an s.
template <class Count>
std::string Counted(Count count, std::string_view one) {
  return StrCat(count, " ", one, count == 1 ? "" : "s");
}

}  // namespace sluice
