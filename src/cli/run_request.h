// Runs one request on an engine and waits for its end; what generate, chat and perplexity share.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "sluice/engine.h"

namespace sluice::cli {

// The last event of a request, with the text and the tokens of all its events.
using RunResult = TextDelta;

// The most events that `requests` requests at a time can have waiting: one per token and one for
// the end of each.
size_t EventsMax(const Engine& engine, int requests);

// Calls `on_delta` for each event on this thread, and cancels the request on SIGINT
// (InterruptGuard) and when std::cout has failed. REQUIRES: request.n == 1. An error of the request
// becomes the result's status. `on_wait` is called many times a second while no event comes.
Result<RunResult> RunRequest(Engine& engine, Request request,
                             const std::function<void(const TextDelta&)>& on_delta,
                             const std::function<void()>& on_wait = nullptr);

// "128 tokens, 95.1/s"; below 8 tokens no rate.
std::string RateLine(int tokens, double decode_ms);

// "128 tokens (the limit), 95.1 tokens/s; prompt 12 tokens (0 cached), 731.0 tokens/s": an answer
// that a limit cut. Below 8 tokens no rate.
std::string SpeedLine(const RunResult& result);

}  // namespace sluice::cli
