// Schemas that other schemas stand for: what `not`, `if`, `oneOf` and the dependent keywords say,
// in terms of anyOf, allOf and what a single type's keywords say. Pure functions.
#pragma once

#include <optional>

#include "base/json.h"

namespace sluice::text {

// Stands in a negated schema beside its keywords: what it names it does not evaluate. No schema
// that is UTF-8 has it.
inline constexpr const char* kNegated = "\xFFnegated";

// What fits exactly where `schema` does not; nothing where that cannot be said.
std::optional<OrderedJson> Negated(const OrderedJson& schema);

// Each of these is of a schema that has the keyword; nothing where that cannot be said.
std::optional<OrderedJson> WithoutIf(const OrderedJson& schema);
std::optional<OrderedJson> WithoutOneOf(const OrderedJson& schema);
std::optional<OrderedJson> WithoutDependents(const OrderedJson& schema);

}  // namespace sluice::text
