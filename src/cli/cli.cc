#include "cli/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <iostream>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/output.h"
#include "cli/signals.h"
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

// How many letters to add, drop or change to make one word of the other.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string NoSuchCommand(const std::string& name) {
  constexpr size_t kSlips = 2;
  std::string message = "there is no command \"" + name + "\"; ";
  if (name.size() <= 32) {
    const auto distance = [&](const Command& command) { return EditDistance(name, command.name); };
    const auto* nearest =
        std::min_element(std::begin(kCommands), std::end(kCommands),
                         [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
    if (distance(*nearest) <= kSlips) {
      return message + "did you mean " + nearest->name + "?";
    }
  }
  return message + "see sluice --help";
}

// CLI11 names what it did not expect from the last to the first.
std::string MessageOf(const CLI::ParseError& error, const CLI::App& app) {
  std::string message = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    message = "unexpected on the command line:";
    for (const std::string& word : app.remaining(true)) message += " " + word;
  }
  std::replace(message.begin(), message.end(), '\n', ' ');
  return message;
}

int UsageError(const std::string& message) {
  PrintError(message);
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

namespace {

int RunCommand(int argc, char** argv) {
  CLI::App app("Sluice serves large language models on CPUs, NVIDIA GPUs and Intel GPUs.",
               "sluice");
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
    return UsageError(NoSuchCommand(first));
  }
  if (const Status status = ReadConfig(argc, argv, app); !status.ok()) {
    return UsageError(status.message());
  }
  try {
    std::vector<std::string> arguments = SpellGraphs(argc, argv, app);
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    app.parse(std::move(arguments));
  } catch (const CLI::Success& done) {  // --help, --version
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    if (argc < 2) {
      std::cerr << app.help();
      return 2;
    }
    return UsageError(MessageOf(error, app) + "; see sluice " + first + " --help");
  }
  const Status status = actions[app.get_subcommands().front()]();
  if (!status.ok() && status.code() != StatusCode::kCancelled) {
    PrintError(status.message());
  }
  return ExitCode(status);
}

}  // namespace

int Run(int argc, char** argv) {
  SetUpSignals();
  FillStandardDescriptors();
  StandardOutput output;
  const int code = RunCommand(argc, argv);
  std::cout.flush();
  if (code != 0 || std::cout.good()) return code;
  if (output.error() == EPIPE) EndBySigpipe();
  PrintError("standard output could not be written; is its disk full?");
  return 1;
}

}  // namespace sluice::cli
