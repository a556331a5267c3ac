// OpenAI's completion object for one finished request.
#pragma once

#include <ostream>

#include "base/json.h"
#include "cli/run_request.h"

namespace sluice::cli {

Json CompletionJson(const Engine& engine, const RunResult& result);

// One line per token: its text, its log-prob, and the best alternatives.
void PrintLogprobs(const RunResult& result, std::ostream& out);

}  // namespace sluice::cli
