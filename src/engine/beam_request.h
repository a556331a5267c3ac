// Requests that ask for a beam search: what they may hold beside it, and the sequence that stands
// for it in the scheduler. Pure functions.
#pragma once

#include "schedule/sequence.h"
#include "sluice/request.h"
#include "sluice/status.h"

namespace sluice::engine {

// kInvalidArgument, with the field's name, where the search is out of range or beside something
// that it cannot heed. Without a search it looks at nothing.
Status CheckBeams(const Request& request, int vocab);

// Turns `spec`, of the request's first answer, into its search. `longest`: the prompt and answer
// that each beam has room for. kInvalidArgument where too many ids end an answer.
// REQUIRES: CheckBeams(request).ok().
Status SearchBeams(const Request& request, int longest, schedule::SequenceSpec* spec);

}  // namespace sluice::engine
