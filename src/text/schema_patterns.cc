#include "text/schema_patterns.h"

#include <algorithm>

#include "base/str_cat.h"
#include "text/name_classes.h"
#include "text/whole_regex.h"

namespace sluice::text {

PatternMatches FormPatterns::MatchesOf(uint32_t fitting) const {
  PatternMatches matches;
  for (const Use& use : uses) {
    if ((fitting >> use.regex & 1) != 0) matches[use.member].push_back(use.schema);
  }
  return matches;
}

std::vector<PatternMatches> FormPatterns::MatchesOf(const std::vector<std::string>& names,
                                                    const SchemaForm& form,
                                                    SchemaRefusals* refusals) const {
  std::vector<PatternMatches> matches(names.size());
  if (regexes.empty() || names.empty()) return matches;
  const auto fitting = PatternsOf(names, regexes);
  if (!fitting) {
    refusals->Refuse(form, uses[0].member, "patternProperties",
                     "is not supported beside a property whose name JSON escapes, or with patterns "
                     "that take so much together");
    return matches;
  }
  for (size_t i = 0; i < names.size(); ++i) matches[i] = MatchesOf((*fitting)[i]);
  return matches;
}

FormPatterns PatternsOfForm(const SchemaForm& form, SchemaRefusals* refusals) {
  FormPatterns patterns;
  for (size_t i = 0; i < form.members.size(); ++i) {
    const OrderedJson* of = form.Find(i, "patternProperties");
    if (of == nullptr) continue;
    if (!of->is_object()) {
      refusals->Refuse(form, i, "patternProperties", "must be an object");
      continue;
    }
    for (const auto& [pattern, schema] : of->items()) {
      const auto whole = WholeStringRegex(pattern);
      if (!whole.ok()) {
        refusals->Refuse(form, i, "patternProperties",
                         StrCat("is not supported: ", whole.status().message()));
        return patterns;
      }
      const auto known = std::find(patterns.regexes.begin(), patterns.regexes.end(), *whole);
      const auto index = static_cast<size_t>(known - patterns.regexes.begin());
      if (known == patterns.regexes.end()) patterns.regexes.push_back(*whole);
      patterns.uses.push_back({i, index, &schema});
    }
    if (patterns.regexes.size() <= kNamePatternsMax) continue;
    refusals->Refuse(form, i, "patternProperties",
                     StrCat("is supported with up to ", kNamePatternsMax, " patterns together"));
    return patterns;
  }
  return patterns;
}

}  // namespace sluice::text
