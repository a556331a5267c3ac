// What a form says of numbers, and the bounds and counts that other types have. Pure functions, but
// for what they refuse.
#pragma once

#include <cstdint>
#include <optional>

#include "base/json.h"
#include "text/schema_forms.h"
#include "text/schema_refusals.h"

namespace sluice::text {

// The bound that is the largest, or the smallest, of those that a keyword sets.
std::optional<double> BoundOf(const SchemaForm& form, const char* keyword, bool largest,
                              SchemaRefusals* refusals);
// The same of a number of characters, items or properties.
std::optional<int64_t> CountOf(const SchemaForm& form, const char* keyword, bool largest,
                               SchemaRefusals* refusals);

// Of `low` and `above` one is set at most, and of `high` and `below`.
struct NumberBounds {
  std::optional<double> low, high, above, below;
};

// The bounds and lengths of a form, by which values of a const or enum are judged. What is wrong
// with them is refused once a value meets them. The form must outlive it.
class ValueBounds {
 public:
  ValueBounds(const SchemaForm& form, SchemaRefusals* refusals)
      : form_(form), refusals_(refusals) {}
  bool Hold(const OrderedJson& value);

 private:
  struct Lengths {
    std::optional<int64_t> least, most;
  };
  const SchemaForm& form_;
  SchemaRefusals* const refusals_;
  std::optional<Lengths> lengths_;      // made for the first text
  std::optional<NumberBounds> bounds_;  // for the first number
};

// What all multipleOf of one schema take to be compiled.
struct MultiplesTaken {
  int64_t steps = 0;  // without their decimal points
  int64_t rules = 0;  // the same for each decimal place
};

// The rewritten schema of the numbers that fit; false: none does. `*extended`: set where the
// library itself cannot read it.
OrderedJson NumbersOf(const SchemaForm& form, MultiplesTaken* taken, SchemaRefusals* refusals,
                      bool* extended);

}  // namespace sluice::text
