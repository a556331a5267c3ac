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

// Whether the value of a const or enum is within the form's bounds and lengths.
bool IsWithinBounds(const SchemaForm& form, const OrderedJson& value, SchemaRefusals* refusals);

// The rewritten schema of the numbers that fit; false: none does. `*extended`: set where the
// library itself cannot read it.
OrderedJson NumbersOf(const SchemaForm& form, SchemaRefusals* refusals, bool* extended);

}  // namespace sluice::text
