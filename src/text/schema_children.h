// What a form says of the items of an array and of the properties of an object. Pure functions.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "text/schema_forms.h"

namespace sluice::text {

// Schemas of the patterns that a name fits, by the member whose patternProperties they are.
using PatternMatches = std::map<size_t, std::vector<const OrderedJson*>>;

// How many items at the front of an array a member of the form has schemas for, one by one.
size_t FrontItems(const SchemaForm& form, size_t member);
// What has to hold of an item, of a named property, and of one that no member names.
SchemaGoal ItemGoal(const SchemaForm& form, size_t index);
SchemaGoal PropertyGoal(const SchemaForm& form, const std::string& name,
                        const PatternMatches& matches = {});
SchemaGoal OtherGoal(const SchemaForm& form);
// What a rewritten schema of names lists; nothing: it does not list them all.
std::optional<std::vector<std::string>> ListedNames(const OrderedJson& schema);

}  // namespace sluice::text
