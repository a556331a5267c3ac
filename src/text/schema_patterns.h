// What the patternProperties of a form say. Pure functions, but for what they refuse.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/schema_children.h"
#include "text/schema_forms.h"
#include "text/schema_refusals.h"

namespace sluice::text {

struct FormPatterns {
  struct Use {
    size_t member;  // of the form
    size_t regex;
    const OrderedJson* schema;  // of the values of properties whose names fit
  };
  std::vector<std::string> regexes;  // of whole names, as WholeStringRegex gives them
  std::vector<Use> uses;

  // Of names that fit these regexes, bits by their index, and no others.
  PatternMatches MatchesOf(uint32_t regexes) const;
  // Of each of these names.
  std::vector<PatternMatches> MatchesOf(const std::vector<std::string>& names,
                                        const SchemaForm& form, SchemaRefusals* refusals) const;
};

FormPatterns PatternsOfForm(const SchemaForm& form, SchemaRefusals* refusals);

}  // namespace sluice::text
