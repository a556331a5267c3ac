// Names of files that are one of several: "x-00002-of-00003.gguf", as llama-gguf-split writes them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

struct PartName {
  std::string_view stem;      // what stands before the number, folders included
  int number = 0, count = 0;  // 1 <= number <= count
  std::string_view suffix;    // from the last dot on
  // Of the part `other` of the same file. REQUIRES: 1 <= other <= count.
  std::string Of(int other) const;
};

// Nothing: it is the name of a whole file. Points into `name`.
std::optional<PartName> ParsePartName(std::string_view name);

}  // namespace sluice
