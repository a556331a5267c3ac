#include <CLI/CLI.hpp>
#include <type_traits>

#include "base/parse_number.h"
#include "base/str_cat.h"
#include "cli/cli.h"
#include "cli/settings.h"

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

// "5" is five bytes to a program and 5 GiB to whoever writes it.
std::string CheckUnit(const std::string& text) {
  constexpr double kLeastWithoutUnit = 1e6;
  const double number = ParseNumber<double>(text).value_or(0);
  if (number == 0 || number >= kLeastWithoutUnit) return "";
  return "\"" + text + "\" has no unit, so it is so many bytes; write it as 512MiB or 2GiB";
}

}  // namespace

void AddEngineOptions(CLI::App& app, EngineOptions* options, std::vector<std::string>* models) {
  constexpr const char* kModel =
      "a .gguf file, a Hugging Face folder, or a name in the model cache";
  CLI::Option* model =
      models == nullptr
          ? app.add_option("model", options->model, kModel)
          : app.add_option("model", *models, StrCat(kModel, "; several are NAME=MODEL each"));
  model->required()->type_name("MODEL");
  options->ForEach(OptionDeclarer(app, kEngineGroup));
  app.get_option("--kv-memory")->check(CheckUnit, "SIZE");
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

std::vector<std::string> SpellGraphs(std::vector<std::string> words, const CLI::App& command) {
  if (command.get_option_no_throw(kGraphs) == nullptr) return words;
  for (size_t i = 0; i < words.size(); ++i) {
    const CLI::Option* before = i > 0 ? command.get_option_no_throw(words[i - 1]) : nullptr;
    const bool value = before != nullptr && before->get_items_expected_min() > 0;
    if (value && words[i - 1] != kGraphs) continue;
    if (words[i] == "--no-graphs") words[i] = "--graphs=none";
    if (words[i] != kGraphs) continue;
    const std::string next = i + 1 < words.size() ? words[i + 1] : "";
    if (next != "none" && next != "piecewise" && next != "full") words[i] = "--graphs=full";
  }
  return words;
}

void AddServerOptions(CLI::App& app, ServerOptions* options) {
  options->ForEach(OptionDeclarer(app, "Server options"));
  app.get_option("--memory-budget")->check(CheckUnit, "SIZE");
}

}  // namespace sluice::cli
