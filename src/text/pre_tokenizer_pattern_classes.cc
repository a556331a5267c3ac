#include "text/pre_tokenizer_pattern_classes.h"

#include <algorithm>
#include <bitset>
#include <unordered_map>

namespace sluice::text {
namespace {

using Members = std::bitset<kPatternSetsMax>;  // the sets that hold a code point

// A set holds a code point that the one before it doesn't, or the other way round.
struct Change {
  uint32_t code_point;
  uint32_t set;
};

std::vector<Change> ChangesOf(const std::vector<CodePointSet>& sets) {
  std::vector<Change> changes;
  for (uint32_t set = 0; set < sets.size(); ++set) {
    for (const CodePointRange& range : sets[set]) {
      changes.push_back({range.first, set});
      changes.push_back({range.last + 1, set});
    }
  }
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.code_point < b.code_point; });
  return changes;
}

}  // namespace

// Walks over the code points from one change to the next and keeps the sets that hold them, so that
// the work is that of the changes, however many sets there are.
std::optional<PatternClasses> ClassesOf(const std::vector<CodePointSet>& sets) {
  const std::vector<Change> changes = ChangesOf(sets);
  PatternClasses classes;
  classes.masks.resize(sets.size());
  std::unordered_map<Members, uint8_t> class_of;
  Members members;
  uint32_t begin = 0;
  for (auto change = changes.begin(); begin < kCodePointEnd;) {
    for (; change != changes.end() && change->code_point == begin; ++change) {
      members.flip(change->set);
      ++classes.steps;
    }
    const size_t number = class_of.size();
    const auto [known, is_new] = class_of.try_emplace(members, static_cast<uint8_t>(number));
    if (is_new) {
      if (number == kPatternClassesMax) return std::nullopt;
      classes.steps += sets.size();
      for (size_t set = 0; set < sets.size(); ++set) {
        if (members[set]) classes.masks[set] |= uint64_t{1} << number;
      }
    }
    classes.spans.emplace_back(begin, known->second);
    begin = change == changes.end() ? kCodePointEnd : change->code_point;
  }
  return classes;
}

}  // namespace sluice::text
