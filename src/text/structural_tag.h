// Structural tags: JSON that says which parts of a free text have grammars. Pure function.
#pragma once

#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice::text {

// The tag as the library takes it: the older form, with `structures` and `triggers`, in the present
// one, with a `format`; its JSON schemas rewritten (RewriteSchema), and at most one whitespace
// character between the parts of their JSON. kInvalidArgument names what is wrong.
Result<std::string> RewriteStructuralTag(std::string_view tag);

}  // namespace sluice::text
