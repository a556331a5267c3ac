// The command line: one file per subcommand. A subcommand declares its options on a CLI11 app and
// returns what runs it. Main thread only.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <string>
#include <vector>

#include "sluice/options.h"
#include "sluice/server.h"
#include "sluice/status.h"

namespace sluice::cli {

using Action = std::function<Status()>;

// Runs `sluice ARGS...` and returns the exit code: 0 done, 1 failed while running, 2 wrong usage, 3
// the model cannot be loaded, 4 the device or its memory is not available, 130 stopped by the user.
// A command whose reader of standard output has left ends as SIGPIPE ends it.
int Run(int argc, char** argv);

// The exit code that a status asks for; 0 for an ok one.
int ExitCode(const Status& status);

// Declares MODEL and every option of an engine on `app`. `models`: of a command that takes several,
// where they go instead of options->model; null: it takes one.
void AddEngineOptions(CLI::App& app, EngineOptions* options,
                      std::vector<std::string>* models = nullptr);

// The words behind a command, with --graphs as an option that has a value. It was a flag once, and
// --graphs alone and --no-graphs still mean full and none.
std::vector<std::string> SpellGraphs(std::vector<std::string> words, const CLI::App& command);

// Declares every option of the HTTP server on `app`.
void AddServerOptions(CLI::App& app, ServerOptions* options);

// Each declares its subcommand's options on `app`.
Action SetUpServe(CLI::App& app);
Action SetUpChat(CLI::App& app);
Action SetUpRun(CLI::App& app);
Action SetUpFetch(CLI::App& app);
Action SetUpGenerate(CLI::App& app);
Action SetUpBatch(CLI::App& app);
Action SetUpBench(CLI::App& app);
Action SetUpPerplexity(CLI::App& app);
Action SetUpTokenize(CLI::App& app);
Action SetUpTemplate(CLI::App& app);
Action SetUpInspect(CLI::App& app);
Action SetUpQuantize(CLI::App& app);
Action SetUpPruneDraft(CLI::App& app);
Action SetUpDevices(CLI::App& app);

}  // namespace sluice::cli
