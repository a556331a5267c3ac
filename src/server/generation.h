// One call of the chat or completions endpoint while it runs: submits its prompts, turns events
// into a stream or a whole answer, and cancels everything when the client goes or one prompt fails.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/activity_log.h"
#include "server/api_call.h"
#include "server/http.h"
#include "server/running_answers.h"

namespace sluice::server {

// Who sent a call.
struct CallSender {
  std::string request_id;  // becomes a part of the answer's id
  std::string key;         // stands for the API key
};

// Takes the call over; the exchange is answered sooner or later, from a text worker of the engine.
// `engine` must outlive the exchange. What comes is added to `totals`, which outlives it, too;
// until it has come the answer is one of `running`. Any thread.
void StartGeneration(Engine& engine, ApiCall call, const CallSender& sender,
                     const std::string& fingerprint, TokenTotals* totals,
                     const std::shared_ptr<RunningAnswers>& running,
                     std::shared_ptr<Exchange> exchange);

}  // namespace sluice::server
