// CharacterSet: characters as the classes of a regex name them. A plain value.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <map>
#include <string>

namespace sluice::text {

class CharacterSet {
 public:
  struct Range {
    uint32_t first, last;  // both are in it
  };

  CharacterSet() = default;
  CharacterSet(std::initializer_list<Range> ranges);

  // REQUIRES: first <= last
  void Add(uint32_t first, uint32_t last);
  void Add(const CharacterSet& other);
  // All other characters of Unicode; surrogates are none.
  CharacterSet Others() const;
  CharacterSet Without(const CharacterSet& other) const;
  bool empty() const { return ranges_.empty(); }
  bool Has(uint32_t character) const {
    const auto behind = ranges_.upper_bound(character);
    return behind != ranges_.begin() && std::prev(behind)->second >= character;
  }
  // By their first character, the last; ascending and apart.
  const std::map<uint32_t, uint32_t>& ranges() const { return ranges_; }

  // A regex of one of them, in printable ASCII, which each of the library's readers of regexes
  // takes for this set. REQUIRES: !empty()
  std::string Regex() const;

 private:
  std::map<uint32_t, uint32_t> ranges_;
};

// A character as such a regex spells it anywhere: \u{00000a}.
std::string EscapedCharacter(uint32_t character);

// Those of ECMA-262, 22.2.2.9: the classes \d, \w and \s, and all that a dot stands for.
const CharacterSet& EcmaDigits();
const CharacterSet& EcmaWordCharacters();
const CharacterSet& EcmaSpaces();
const CharacterSet& EcmaDot();
// Those that a JSON string writes as an escape.
const CharacterSet& JsonEscapedSet();

}  // namespace sluice::text
