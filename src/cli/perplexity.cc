// sluice perplexity: by llama.cpp's rule, so that figures can be held side by side. The text is
// tokenized once and cut into disjoint chunks of n; tokens n/2+1 .. n-1 of a chunk are scored.
#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <memory>

#include "base/clock.h"
#include "base/json.h"
#include "base/str_cat.h"
#include "cli/cli.h"
#include "cli/open_engine.h"
#include "cli/run_request.h"
#include "cli/signals.h"
#include "cli/text_input.h"
#include "sluice/engine.h"

namespace sluice::cli {
namespace {

struct PerplexityOptions {
  EngineOptions engine;
  std::string file;
  int context = 512;
  bool json = false;
};

struct Sums {
  double loss = 0, squares = 0;
  int64_t count = 0;

  double mean() const { return loss / count; }
  double perplexity() const { return std::exp(mean()); }
  double std_error() const {
    const double variance = squares / count - mean() * mean();
    return count > 1 ? perplexity() * std::sqrt(std::max(0.0, variance) / (count - 1)) : 0;
  }
};

Status ScoreChunk(Engine& engine, std::vector<int32_t> chunk, Sums* sums) {
  const int n = static_cast<int>(chunk.size());
  Request request;
  request.prompt = std::move(chunk);
  request.max_tokens = 0;
  request.prompt_logprobs = 0;
  SLUICE_ASSIGN_OR_RETURN(const RunResult result, RunRequest(engine, std::move(request), {}));
  if (result.finish == FinishReason::kCancelled) {
    return Status(StatusCode::kCancelled, "stopped by the user");
  }
  for (int i = n / 2 + 1; i < n; ++i) {
    const double loss = -result.prompt_tokens[i].logprob.value_or(0);
    sums->loss += loss;
    sums->squares += loss * loss;
    ++sums->count;
  }
  return OkStatus();
}

Status Perplexity(const PerplexityOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(std::string text, ReadText(options.file));
  if (!text.empty() && text.back() == '\n') text.pop_back();
  EngineOptions engine_options = options.engine;
  engine_options.prefix_cache = false;
  // The same figure on every device, unless one asks for another.
  if (engine_options.kv_dtype == "auto") engine_options.kv_dtype = "f16";
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, OpenEngine(engine_options));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, engine->Tokenize(text, true, true));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<int32_t> empty, engine->Tokenize("", true, false));
  const int n = options.context;
  if (n > engine->Info().max_model_len) {
    return InvalidArgument(
        StrCat("--context ", n, " is above the model's ", engine->Info().max_model_len, " tokens"));
  }
  if (static_cast<int64_t>(ids.size()) < 2 * static_cast<int64_t>(n)) {
    return InvalidArgument(StrCat(options.file, " has ", ids.size(), " tokens; at least ", 2 * n,
                                  " are needed (twice --context)"));
  }
  InterruptGuard interrupt;
  const int64_t start = NowMicros();
  const int64_t chunks = static_cast<int64_t>(ids.size()) / n;
  Sums sums;
  for (int64_t c = 0; c < chunks; ++c) {
    std::vector<int32_t> chunk(ids.begin() + c * n, ids.begin() + (c + 1) * n);
    if (!empty.empty()) chunk[0] = empty[0];  // the model begins a text with a BOS
    SLUICE_RETURN_IF_ERROR(ScoreChunk(*engine, std::move(chunk), &sums));
    if (!options.json) {
      std::cerr << "\r" << c + 1 << " of " << chunks << " chunks, perplexity " << sums.perplexity()
                << "   " << std::flush;
    }
  }
  const double seconds = (NowMicros() - start) * 1e-6;
  if (options.json) {
    std::cout << DumpJson(Json{{"perplexity", sums.perplexity()},
                               {"std_error", sums.std_error()},
                               {"tokens", sums.count},
                               {"seconds", seconds}})
              << "\n";
  } else {
    std::cerr << "\n";
    std::cout << "perplexity " << sums.perplexity() << " +- " << sums.std_error() << " over "
              << sums.count << " tokens in " << seconds << " s\n";
  }
  return OkStatus();
}

}  // namespace

Action SetUpPerplexity(CLI::App& app) {
  auto options = std::make_shared<PerplexityOptions>();
  options->engine.speculate = "none";  // nothing is drawn
  AddEngineOptions(app, &options->engine);
  app.add_option("file", options->file, "a text file")->required()->type_name("FILE");
  app.add_option("--context", options->context, "tokens of a chunk")
      ->check(CLI::Range(4, 1 << 20))
      ->capture_default_str();
  app.add_flag("--json", options->json, "print one JSON object");
  return [options] { return Perplexity(*options); };
}

}  // namespace sluice::cli
