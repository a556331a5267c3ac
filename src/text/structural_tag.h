// Structural tags: JSON that says which parts of a free text have grammars. Pure function.
#pragma once

#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice::text {

// A member of a part of type json_schema, in tags of our own alone: its schema is what
// RewriteSchema gave, and is left as it is, since another pass would refuse what the first one
// wrote.
inline constexpr const char* kRewrittenMember = "rewritten";

// The tag as the library takes it: the older form, with `structures` and `triggers`, in the present
// one, with a `format`; its JSON schemas and regular expressions rewritten (RewriteSchema,
// WholeRegex). `closed`: of RewriteSchema, and the tag is of our own making. kInvalidArgument names
// what is wrong.
Result<std::string> RewriteStructuralTag(std::string_view tag, bool closed);

}  // namespace sluice::text
