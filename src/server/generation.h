// One call of the chat or completions endpoint while it runs: submits its prompts, turns events
// into a stream or a whole answer, and cancels everything when the client goes or one prompt fails.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/activity_log.h"
#include "server/api_call.h"
#include "server/http.h"

namespace sluice::server {

// Takes the call over; the exchange is answered sooner or later, from a text worker of the engine.
// `engine` must outlive the exchange; `request_id` becomes a part of the answer's. What comes is
// added to `totals`, which outlives it, too. Any thread.
void StartGeneration(Engine& engine, ApiCall call, const std::string& request_id,
                     const std::string& fingerprint, TokenTotals* totals,
                     std::shared_ptr<Exchange> exchange);

}  // namespace sluice::server
