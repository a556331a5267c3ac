// What `contains` says in a form, with minContains and maxContains. Pure function, but for what it
// refuses.
#pragma once

#include <cstdint>
#include <optional>

#include "text/schema_forms.h"
#include "text/schema_refusals.h"

namespace sluice::text {

// An array has so many items that fit a schema.
struct Contained {
  size_t member;  // of the form, the `contains` of which it is
  int64_t least = 1;
  int64_t most = -1;  // below 0: any number
};

// Nothing: the form says nothing of that.
std::optional<Contained> ContainedOf(const SchemaForm& form, SchemaRefusals* refusals);

}  // namespace sluice::text
