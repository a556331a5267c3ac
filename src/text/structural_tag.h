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
// Another of these, beside the first, and the members of the object in it: the arguments of a call
// as a family writes them (text/grammar_compiler/written_arguments.h, which fuzz targets are built
// without).
inline constexpr std::string_view kWrittenAsMember = "written_as";
inline constexpr std::string_view kFormOfArguments = "form";  // one of the next three
inline constexpr std::string_view kArgumentsMarked = "marked";
inline constexpr std::string_view kArgumentsInPython = "python";
inline constexpr std::string_view kArgumentsOfGemma = "gemma";
inline constexpr std::string_view kQuoteOfArguments = "quote";
inline constexpr std::string_view kQuoteTokenOfArguments = "quote_token";

// The tag as the library takes it: the older form, with `structures` and `triggers`, in the present
// one, with a `format`; its JSON schemas and regular expressions rewritten (RewriteSchema,
// WholeRegex). `closed`: of RewriteSchema, and the tag is of our own making. kInvalidArgument names
// what is wrong.
Result<std::string> RewriteStructuralTag(std::string_view tag, bool closed);

}  // namespace sluice::text
