// One call of the chat or completions endpoint while it runs: submits its prompts, turns events
// into a stream or a whole answer, and cancels everything when the client goes or one prompt fails.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/api_call.h"
#include "server/http.h"

namespace sluice::server {

// Takes the call over; the exchange is answered sooner or later, from a text worker of the engine.
// `engine` must outlive the exchange. Any thread.
void StartGeneration(Engine& engine, ApiCall call, std::string fingerprint,
                     std::shared_ptr<Exchange> exchange);

}  // namespace sluice::server
