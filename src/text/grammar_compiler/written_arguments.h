// The rules of values that the library itself does not read: arguments that a family of models
// writes otherwise than as JSON, and schemas that say more than it knows. Pure functions.
#pragma once

#include <picojson.h>
#include <xgrammar/xgrammar.h>

namespace sluice::text {

// Members of a part of a structural tag, which is of the type json_schema, and of the object that
// the first of them holds.
inline constexpr const char* kWrittenAs = "written_as";
inline constexpr const char* kForm = "form";               // one of those below
inline constexpr const char* kQuote = "quote";             // of kGemmaForm: around texts
inline constexpr const char* kQuoteToken = "quote_token";  // its token, where it is a special one

// JSON without "<|" in it, which begins the marks around it.
inline constexpr const char* kMarkedForm = "marked";
// The arguments of a call in Python: name=value, ...
inline constexpr const char* kPythonForm = "python";
// JSON whose names are bare words and whose texts stand between marks.
inline constexpr const char* kGemmaForm = "gemma";

// `schema`: an object or alternatives of objects, and what it refers to as "#/$defs/NAME": what
// RewriteSchema gives, in which no text, name or pattern spells what the form cannot write. Throws
// std::runtime_error for what is none of that.
xgrammar::Grammar ReadWrittenArguments(const picojson::value& schema,
                                       const picojson::value& written_as);

// A member of the root of a schema with parts that the library itself cannot read: numbers that are
// multiples, or no integers, and arrays that contain so many items of a kind.
inline constexpr const char* kExtended = "extended";
// Any values of a rewritten schema, as compact JSON. Throws as above.
xgrammar::Grammar ReadExtendedSchema(const picojson::value& schema);

}  // namespace sluice::text
