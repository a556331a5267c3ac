// What the arguments of a tool have to be, one by one, for the families that write each between
// tags. Pure function; any thread.
#pragma once

#include <string_view>
#include <vector>

#include "base/json.h"
#include "sluice/status.h"
#include "text/output/call_grammar.h"
#include "text/output/tool_schemas.h"

namespace sluice::engine {

// `schema`: what RewriteSchema gave for the tool's parameters. `kinds`: how the parser takes values
// of the tool `tool`. `shape`: of the family, the tags of which may say which values are strings.
// All that fits becomes a value of the schema, but for a free string within an array or an object
// that has the tag behind the value in it: the parser ends the value there. Strings that have a
// pattern, a format or a length are without `<`, which might begin that tag. kInvalidArgument says
// what cannot be written so, and where parts that arguments share would be copied too often.
Result<std::vector<text::TaggedParameter>> TaggedParameters(const OrderedJson& schema,
                                                            const text::ToolSchemas& kinds,
                                                            std::string_view tool,
                                                            const text::ParameterShape& shape);

// Any arguments.
std::vector<text::TaggedParameter> AnyTaggedParameters(const text::ParameterShape& shape);

}  // namespace sluice::engine
