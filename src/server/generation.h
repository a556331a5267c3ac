// One call of an API that generates while it runs: submits its prompts, turns events
// into a stream or a whole answer, and cancels everything when the client goes or one prompt fails.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/activity_log.h"
#include "server/http/http.h"
#include "server/running_answers.h"
#include "server/shared/answer.h"
#include "server/shared/api_call.h"
#include "server/shared/deadlines.h"

namespace sluice::server {

// Makes the format of an answer, which keeps a reference to the call.
using AnswerMaker = std::function<std::unique_ptr<AnswerFormat>(const ApiCall&, AnswerHead)>;

// Takes the call over; the exchange is answered sooner or later, from a text worker of the engine.
// `engine` is kept until then. `key` stands for the API key that asked. What comes is added
// to `totals`, which outlives it, too; until it has come the answer is one of `running`. A
// call with a timeout ends at its time. Any thread.
void StartGeneration(std::shared_ptr<Engine> engine, ApiCall call, AnswerHead head,
                     const AnswerMaker& format, const std::string& key, TokenTotals* totals,
                     const std::shared_ptr<RunningAnswers>& running, Deadlines* deadlines,
                     std::shared_ptr<Exchange> exchange);

}  // namespace sluice::server
