// Makes the grammar of a request whose answer is to call tools. Pure function; any thread.
#pragma once

#include "sluice/request.h"
#include "sluice/status.h"
#include "text/output/families.h"
#include "text/tokenizer.h"

namespace sluice::engine {

// Sets `request->grammar` where tool_choice requires calls, or where a tool is strict, whose
// arguments then fit its schema; true then. Arguments of other tools fit their schema where that
// can be held to, and are some JSON object otherwise. kInvalidArgument names what cannot be held
// to.
Result<bool> HoldToCalls(const text::OutputFormat& output, const text::Tokenizer& tokenizer,
                         Request* request);

}  // namespace sluice::engine
