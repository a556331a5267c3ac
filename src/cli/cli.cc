#include "cli/cli.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <map>

#include "base/log.h"
#include "cli/version.h"

namespace sluice::cli {
namespace {

struct Command {
  const char* name;
  const char* description;
  Action (*set_up)(CLI::App&);
};

constexpr Command kCommands[] = {
    {"serve", "serve a model over HTTP, as OpenAI does", SetUpServe},
    {"chat", "talk with a model in the terminal", SetUpChat},
    {"generate", "continue a text, or answer one question", SetUpGenerate},
    {"bench", "measure prefill and decode speed", SetUpBench},
    {"perplexity", "measure how well a model predicts a text", SetUpPerplexity},
    {"tokenize", "turn text into token ids, or back", SetUpTokenize},
    {"template", "render a conversation with a chat template", SetUpTemplate},
    {"inspect", "show what is in a model", SetUpInspect},
    {"devices", "show the devices found and which one would be used", SetUpDevices},
};

}  // namespace

int ExitCode(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return 0;
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnprocessable:
    case StatusCode::kTooLarge:
      return 2;
    case StatusCode::kBadModel:
    case StatusCode::kNotFound:
      return 3;
    case StatusCode::kDevice:
    case StatusCode::kOutOfMemory:
      return 4;
    case StatusCode::kCancelled:
      return 130;
    default:
      return 1;
  }
}

int Run(int argc, char** argv) {
  CLI::App app("Sluice serves large language models on CPUs and GPUs.", "sluice");
  app.require_subcommand(1);
  app.set_version_flag("--version", VersionText());
  std::map<CLI::App*, Action> actions;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.description);
    sub->set_config("--config", "", "read options from this TOML file");
    actions[sub] = command.set_up(*sub);
    AddEnvironment(*sub);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {  // --help, --version
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    std::cerr << "sluice: " << error.what() << "; see sluice --help\n";
    return 2;
  }
  const Status status = actions[app.get_subcommands().front()]();
  if (!status.ok() && status.code() != StatusCode::kCancelled) {
    std::cerr << "sluice: " << status.message() << "\n";
  }
  return ExitCode(status);
}

}  // namespace sluice::cli
