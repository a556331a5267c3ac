// The layout of one formatted number or string: sign, prefix, grouping, precision, padding.
// Shared by str % and str.format. For one rendering's thread.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace sluice::text::jinja {

struct FormatSpec {
  std::string fill = " ";  // one character
  char align = '\0';       // < > = ^, or 0 for the type's own
  char sign = '-';         // + - or space
  bool alternate = false;
  bool zero = false;
  int64_t width = 0;
  char grouping = '\0';  // , or _
  int64_t precision = -1;
  char type = '\0';
};

// Pads `digits` (with sign and prefix in front) to the width; `body` is what may be grouped by the
// '=' alignment.
std::string Pad(Runtime& runtime, const FormatSpec& spec, std::string_view head,
                std::string_view body, char default_align);
// An integer as type d, x, X, o or b.
std::string FormatIntegerSpec(Runtime& runtime, const FormatSpec& spec, Int value);
// A float as type e, E, f, F, g, G, % or, for 0, as str() with at least the precision's digits.
std::string FormatFloatSpec(Runtime& runtime, const FormatSpec& spec, double value);

}  // namespace sluice::text::jinja
