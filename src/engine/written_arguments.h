// What the arguments of a tool have to be, all together, for the families that write them in a form
// of their own. Pure function; any thread.
#pragma once

#include "base/json.h"
#include "sluice/status.h"
#include "text/output/call_grammar.h"

namespace sluice::engine {

// `schema`: what RewriteSchema gave for the tool's parameters. A format of a structural tag: all
// that fits it the family's parser gives back as an object of the schema. kInvalidArgument says
// what cannot be written in that form.
Result<OrderedJson> WrittenArguments(const OrderedJson& schema, const text::ArgumentForm& form,
                                     const text::SpecialMark& special);

}  // namespace sluice::engine
