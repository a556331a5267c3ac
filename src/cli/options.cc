#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <type_traits>

#include "cli/cli.h"

namespace sluice::cli {
namespace {

// Turns the ForEach of an options struct into options of CLI11.
class OptionDeclarer {
 public:
  explicit OptionDeclarer(CLI::App& app) : app_(app) {}

  template <class T, class Bound>
  void operator()(T& field, const char* flag, const char* help, Bound low, Bound high) {
    app_.add_option(Flag(flag), field, help)
        ->check(CLI::Range(static_cast<T>(low), static_cast<T>(high)))
        ->capture_default_str();
  }
  void operator()(std::string& field, const char* flag, const char* help) {
    CLI::Option* option = app_.add_option(Flag(flag), field, help);
    if (!field.empty()) option->capture_default_str();
  }
  void operator()(bool& field, const char* flag, const char* help) {
    const std::string name = Flag(flag);
    app_.add_flag(field ? name + ",!--no-" + flag : name, field,
                  field ? std::string(help) + " (on; --no-" + flag + " turns it off)" : help);
  }
  void operator()(uint64_t& field, const char* flag, const char* help) {
    app_.add_option(Flag(flag), field, help)->capture_default_str();
  }

 private:
  static std::string Flag(const char* flag) { return std::string("--") + flag; }
  CLI::App& app_;
};

}  // namespace

void AddEngineOptions(CLI::App& app, EngineOptions* options) {
  app.add_option("model", options->model,
                 "a .gguf file, a Hugging Face folder, or a name in the model cache")
      ->required()
      ->type_name("MODEL");
  options->ForEach(OptionDeclarer(app));
}

void AddServerOptions(CLI::App& app, ServerOptions* options) {
  options->ForEach(OptionDeclarer(app));
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
