#include "cli/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
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
    {"quantize", "write a GGUF file in another number format", SetUpQuantize},
    {"devices", "show the devices found and which one would be used", SetUpDevices},
};

// One line per option, so that the help of a subcommand fits a screen.
class CompactFormatter : public CLI::Formatter {
 public:
  CompactFormatter() { column_width(30); }
  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    std::string name = CLI::Formatter::make_option_name(option, positional);
    if (const size_t value = name.find("{false}"); value != std::string::npos) name.erase(value);
    return name;
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0) return "";
    std::string text = " " + option->get_type_name();
    if (const size_t range = text.find(':'); range != std::string::npos) text.erase(range);
    if (!option->get_default_str().empty()) text += "=" + option->get_default_str();
    return text;
  }
};

constexpr const char* kFooter =
    "Options may also stand in a TOML file (--config) or in the environment (--max-queue as\n"
    "SLUICE_MAX_QUEUE).";

int UsageError(const std::string& message) {
  std::cerr << "sluice: " << message << "\n";
  return 2;
}

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
  app.formatter(std::make_shared<CompactFormatter>());
  app.set_version_flag("--version", VersionText());
  std::map<CLI::App*, Action> actions;
  std::string config_path;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.description);
    sub->add_option("--config", config_path, "read options from this TOML file");
    actions[sub] = command.set_up(*sub);
    AddEnvironment(*sub);
    if (sub->get_footer().empty()) sub->footer(kFooter);
  }
  const std::string first = argc > 1 ? argv[1] : "";
  const auto is_first = [&](const Command& command) { return first == command.name; };
  if (!first.empty() && first[0] != '-' &&
      std::none_of(std::begin(kCommands), std::end(kCommands), is_first)) {
    return UsageError("there is no command \"" + first + "\"; see sluice --help");
  }
  if (const Status status = ReadConfig(argc, argv, app); !status.ok()) {
    return UsageError(status.message());
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {  // --help, --version
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    if (argc < 2) {
      std::cerr << app.help();
      return 2;
    }
    std::string message = error.what();
    std::replace(message.begin(), message.end(), '\n', ' ');
    return UsageError(message + "; see sluice " + first + " --help");
  }
  const Status status = actions[app.get_subcommands().front()]();
  if (!status.ok() && status.code() != StatusCode::kCancelled) {
    std::cerr << "sluice: " << status.message() << "\n";
  }
  return ExitCode(status);
}

}  // namespace sluice::cli
