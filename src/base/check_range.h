// The one wording for a number that is out of range, wherever it came from. Any thread.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "base/str_cat.h"
#include "sluice/limits.h"
#include "sluice/status.h"

namespace sluice {

// `name`: as the user wrote it, "max_tokens" or "--threads".
template <class T, class Bound>
std::string RangeError(std::string_view name, const T& value, Bound low, Bound high) {
  return StrCat(name, " is ", value, "; it must be between ", low, " and ", high);
}

// kInvalidArgument of that field unless low <= value <= high.
template <class T>
Status CheckRange(std::string_view field, T value, std::type_identity_t<T> low,
                  std::type_identity_t<T> high) {
  if (value >= low && value <= high) return OkStatus();
  return InvalidArgument(RangeError(field, value, low, high), std::string(field));
}

inline Status CheckRange(std::string_view field, double value, limits::Range range) {
  if (range.Holds(value)) return OkStatus();
  if (!range.above_low) return CheckRange(field, value, range.low, range.high);
  return InvalidArgument(
      StrCat(field, " is ", value, "; it must be above ", range.low, " and at most ", range.high),
      std::string(field));
}

}  // namespace sluice
