#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>
#include <type_traits>

#include "base/regular_file.h"
#include "base/str_cat.h"
#include "cli/cli.h"

namespace sluice::cli {
namespace {

constexpr char kGraphs[] = "--graphs";

// Turns the ForEach of an options struct into options of CLI11.
class OptionDeclarer {
 public:
  OptionDeclarer(CLI::App& app, const char* group) : app_(app), group_(group) {}

  template <class T, class Bound>
  void operator()(T& field, const char* flag, const char* help, Bound low, Bound high) {
    app_.add_option(Flag(flag), field, help)
        ->check(CLI::Range(static_cast<T>(low), static_cast<T>(high)))
        ->group(group_)
        ->capture_default_str();
  }
  void operator()(std::string& field, const char* flag, const char* help) {
    CLI::Option* option = app_.add_option(Flag(flag), field, help)->group(group_);
    if (!field.empty()) option->capture_default_str();
  }
  void operator()(bool& field, const char* flag, const char* help) {
    const std::string name = Flag(flag);
    app_.add_flag(field ? name + ",!--no-" + flag : name, field, help)->group(group_);
  }
  void operator()(uint64_t& field, const char* flag, const char* help) {
    app_.add_option(Flag(flag), field, help)->group(group_)->capture_default_str();
  }

 private:
  static std::string Flag(const char* flag) { return std::string("--") + flag; }
  CLI::App& app_;
  const char* const group_;
};

std::string ConfigPath(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--config" && i + 1 < argc) return argv[i + 1];
    if (argument.starts_with("--config=")) return std::string(argument.substr(9));
  }
  return {};
}

}  // namespace

void AddEngineOptions(CLI::App& app, EngineOptions* options) {
  app.add_option("model", options->model,
                 "a .gguf file, a Hugging Face folder, or a name in the model cache")
      ->required()
      ->type_name("MODEL");
  options->ForEach(OptionDeclarer(app, "Engine options"));
  app.get_option(kGraphs)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->transform(CLI::Transformer({{"true", "full"},
                                    {"on", "full"},
                                    {"yes", "full"},
                                    {"1", "full"},
                                    {"false", "none"},
                                    {"off", "none"},
                                    {"no", "none"},
                                    {"0", "none"}},
                                   CLI::ignore_case));
}

std::vector<std::string> SpellGraphs(int argc, char** argv, const CLI::App& app) {
  if (argc < 2) return {};
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto commands = app.get_subcommands(
      [&](const CLI::App* command) { return command->get_name() == arguments.front(); });
  if (commands.empty() || commands.front()->get_option_no_throw(kGraphs) == nullptr) {
    return arguments;
  }
  for (size_t i = 1; i < arguments.size(); ++i) {
    const CLI::Option* before = commands.front()->get_option_no_throw(arguments[i - 1]);
    const bool value = before != nullptr && before->get_items_expected_min() > 0;
    if (value && arguments[i - 1] != kGraphs) continue;
    if (arguments[i] == "--no-graphs") arguments[i] = "--graphs=none";
    if (arguments[i] != kGraphs) continue;
    const std::string next = i + 1 < arguments.size() ? arguments[i + 1] : "";
    if (next != "none" && next != "piecewise" && next != "full") arguments[i] = "--graphs=full";
  }
  return arguments;
}

Status ReadConfig(int argc, char** argv, CLI::App& app) {
  const std::string path = ConfigPath(argc, argv);
  if (path.empty() || argc < 2) return OkStatus();
  constexpr size_t kConfigBytesMax = size_t{1} << 20;
  auto text = ReadRegularFile(path, kConfigBytesMax);
  if (!text.ok()) {
    return InvalidArgument(
        StrCat("the file of --config cannot be read: ", text.status().message()));
  }
  std::istringstream file(*std::move(text));
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigTOML().from_config(file);
  } catch (const CLI::Error& error) {
    return InvalidArgument(path + " is not TOML: " + error.what());
  }
  CLI::App* sub = app.get_subcommand(argv[1]);
  for (const CLI::ConfigItem& item : items) {
    if (item.name == "++" || item.name == "--") continue;  // the borders of a table
    if (!item.parents.empty() && item.parents.front() != sub->get_name()) continue;
    const CLI::Option* option = sub->get_option_no_throw("--" + item.name);
    if (option == nullptr || option->get_envname().empty()) {
      return InvalidArgument(path + " has the key " + item.name + ", which sluice " +
                             sub->get_name() + " does not know; see sluice " + sub->get_name() +
                             " --help");
    }
    std::string value;
    for (const std::string& part : item.inputs) value += (value.empty() ? "" : ",") + part;
    setenv(option->get_envname().c_str(), value.c_str(), 0);
  }
  return OkStatus();
}

void AddServerOptions(CLI::App& app, ServerOptions* options) {
  options->ForEach(OptionDeclarer(app, "Server options"));
}

void AddEnvironment(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty()) continue;
    std::string name = "SLUICE_" + option->get_lnames().front();
    if (option->get_lnames().front() == "help" || option->get_lnames().front() == "config")
      continue;
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
      return c == '-' ? '_' : static_cast<char>(std::toupper(c));
    });
    option->envname(name);
  }
}

}  // namespace sluice::cli
