// sluice batch: a file of OpenAI's batch lines through a model, into a file of answers.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "base/counted.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "cli/cli.h"
#include "cli/open_engine.h"
#include "cli/signals.h"
#include "sluice/batch.h"

namespace sluice::cli {
namespace {

struct BatchOptions {
  EngineOptions engine;
  std::string in, out;
};

Status Batch(const BatchOptions& options) {
  if (access(options.in.c_str(), R_OK) != 0) {  // before the model has loaded for minutes
    return InvalidArgument(StrCat(Quote(options.in), " cannot be read; name a file of lines"));
  }
  SLUICE_RETURN_IF_ERROR(CheckBatch(options.in));
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, OpenEngine(options.engine));
  const InterruptGuard interrupt;
  const bool terminal = isatty(STDERR_FILENO) != 0;
  SLUICE_ASSIGN_OR_RETURN(const BatchProgress progress,
                          RunBatch(
                              *engine, options.in, options.out,
                              [terminal](const BatchProgress& now) {
                                if (!terminal) return;
                                std::cerr << "\r" << Counted(now.completed + now.failed, "line")
                                          << " answered" << std::flush;
                              },
                              [&interrupt] { return interrupt.raised(); }));
  if (terminal) std::cerr << "\r";
  std::cerr << Counted(progress.completed, "line") << " answered, " << progress.failed
            << " with an error, " << progress.before << " answered before";
  if (progress.failed_before > 0)
    std::cerr << ", " << progress.failed_before << " with an error before";
  std::cerr << "\n";
  if (interrupt.raised()) {
    return Status(StatusCode::kCancelled,
                  StrCat("stopped by the user; the same command goes on from here"));
  }
  if (const int64_t failed = progress.failed + progress.failed_before; failed > 0) {
    return Status(StatusCode::kFailedPrecondition,
                  StrCat("the answers of ", Counted(failed, "line"), " are errors; ",
                         Quote(options.out), " says which and why"));
  }
  return OkStatus();
}

}  // namespace

Action SetUpBatch(CLI::App& app) {
  auto options = std::make_shared<BatchOptions>();
  AddEngineOptions(app, &options->engine);
  app.add_option("IN", options->in, "requests, a line each, as OpenAI's batches have them")
      ->required();
  app.add_option("OUT", options->out, "their answers; lines that are in it are not asked again")
      ->required();
  return [options] { return Batch(*options); };
}

}  // namespace sluice::cli
