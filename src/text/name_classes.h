// Names of properties by the patterns that they fit. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::text {

inline constexpr size_t kNamePatternsMax = 8;

// Names that fit some of several patterns, and no others of them.
struct NameClass {
  uint32_t patterns = 0;  // bits by their index
  std::string regex;      // of a JSON string without escapes, as WholeStringRegex gives it
};

// The classes of all names but for `names`, which are UTF-8; each name is in one of them at most:
// those that no string without escapes spells are in none. `patterns`: what WholeStringRegex gave.
// Nothing where that would be too large. REQUIRES: patterns.size() <= kNamePatternsMax
std::optional<std::vector<NameClass>> ClassesOfNames(std::span<const std::string> patterns,
                                                     std::span<const std::string> names);
// Which of the patterns each name fits, as bits; nothing where that would be too large, or JSON
// escapes a character of a name.
std::optional<std::vector<uint32_t>> PatternsOf(std::span<const std::string> names,
                                                std::span<const std::string> patterns);

}  // namespace sluice::text
