#include "base/parse_bytes.h"
#include "base/ascii.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>

#include "base/str_cat.h"

namespace sluice {

Result<size_t> ParseBytes(std::string_view text, std::string_view what) {
  const Status wrong = InvalidArgument(
      StrCat(what, " \"", text, "\" is not a size; write it as 512MiB or 2GiB"), std::string(what));
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number < 0) return wrong;
  std::string unit = Lower(std::string_view(end, text.data() + text.size()));
  unit.erase(std::remove(unit.begin(), unit.end(), ' '), unit.end());
  constexpr std::string_view kPrefixes = "kmgt";
  double scale = 1;
  if (!unit.empty() && unit != "b") {
    const size_t prefix = kPrefixes.find(unit[0]);
    const std::string_view rest = std::string_view(unit).substr(1);
    if (prefix == std::string_view::npos || (rest != "b" && rest != "ib")) return wrong;
    scale = std::pow(rest == "ib" ? 1024.0 : 1000.0, static_cast<double>(prefix + 1));
  }
  const double bytes = number * scale;
  if (bytes >= 9.0e18) return wrong;
  return static_cast<size_t>(bytes);
}

std::string FormatBytes(uint64_t bytes) {
  constexpr double kRoundsUp = 1023.5;  // four digits would say 1024
  constexpr std::array kUnits = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  size_t unit = 0;
  double value = static_cast<double>(bytes);
  while (value >= kRoundsUp && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  char number[16];
  std::snprintf(number, sizeof number, "%.4g", value);
  return StrCat(number, kUnits[unit]);
}

}  // namespace sluice
