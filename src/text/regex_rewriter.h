// RegexRewriter: a regular expression of ECMA-262 in the few forms that all of the library's
// readers of regexes take alike, and that mean the same. One per regex; not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/status.h"
#include "text/character_set.h"

namespace sluice::text {

class RegexRewriter {
 public:
  // `left_out`: characters that its texts may not have; where it asks for none but these it is
  // refused, with `why` behind them. `anywhere`: a part of a text may fit, unless ^ and $ say
  // which. `regex` and `why` outlive it.
  RegexRewriter(std::string_view regex, CharacterSet left_out, std::string_view why, bool anywhere)
      : regex_(regex), left_out_(std::move(left_out)), why_(why), anywhere_(anywhere) {}
  // kInvalidArgument: what is no regex, and what would have to be left out.
  Result<std::string> Run();

 private:
  // What stands before the next part, in its alternative.
  enum class Before { kNothing, kCharacter, kGroup, kRepetition };

  Status Step();
  Status OpenGroup();
  Status CloseGroup();
  Status Repeat();
  // Of {n}, {n,} and {n,m}: as the library takes it.
  Result<std::string> Counts();
  Status AddClass();
  // One of a class, or with Step the only one: a character or an escape. `single`: the character,
  // where it is one.
  Status ReadMember(bool in_class, CharacterSet* set, int64_t* single);
  Status ReadEscape(bool in_class, CharacterSet* set, int64_t* single);
  Result<uint32_t> ReadCodePoint();
  // `spelled`: of the set, in the regex.
  Status Add(const CharacterSet& set, std::string_view spelled);
  void EndAlternative();
  Status Refuse(std::string_view why) const;
  std::string_view rest() const { return regex_.substr(at_); }

  const std::string_view regex_;
  const CharacterSet left_out_;
  const std::string_view why_;
  const bool anywhere_;
  size_t at_ = 0;
  Before before_ = Before::kNothing;
  std::vector<std::string> alternatives_;  // those that are not in parentheses
  std::string part_;                       // of the present one
  bool from_start_ = false, to_end_ = false;
  std::vector<bool> empty_groups_;  // those around, outermost first: nothing stands in it yet
};

}  // namespace sluice::text
