#include "cli/sampling_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <type_traits>

#include "base/check_range.h"
#include "base/str_cat.h"
#include "sluice/sampling.h"

namespace sluice::cli {
namespace {

constexpr const char* kSamplingGroup = "Sampling options";

// Declares the flag of a field.
template <class Number>
void Add(CLI::App& app, const SamplingField& field, std::optional<Number>& value) {
  constexpr bool kWhole = std::is_same_v<Number, int>;
  limits::Range range = field.range;
  // What lies below switches the field off, as 0 does, and is more likely a mistake.
  if (kWhole) range.low = std::max(range.low, 0.0);
  const auto check = [range](const std::string& text) {
    Number number = 0;
    if (!CLI::detail::lexical_cast(text, number)) return StrCat(text, " is not a number");
    return CheckRange("the value", number, range).message();
  };
  const std::string bounds =
      kWhole ? "INT >= 0" : StrCat("FLOAT in [", range.low, " - ", range.high, "]");
  app.add_option(FlagOf(field.name), value,
                 StrCat(field.flag_help, "; default: the model's, or ",
                        field.terminal_default.value_or(field.otherwise)))
      ->check(check, bounds)
      ->group(kSamplingGroup);
}

// Of the seed, which no model says and of which any is right.
void Add(CLI::App& app, const SamplingField& field, std::optional<uint64_t>& value) {
  app.add_option(FlagOf(field.name), value, std::string(field.flag_help))->group(kSamplingGroup);
}

}  // namespace

std::string FlagOf(std::string_view name) {
  std::string flag = StrCat("--", name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

void AddSamplingOptions(CLI::App& app, Sampling* sampling) {
  ForEachRequestField(
      [&app](const SamplingField& field, auto& value) {
        if (!field.flag_help.empty()) Add(app, field, value);
      },
      *sampling);
}

Sampling WithTerminalDefaults(Sampling asked, const Sampling& model) {
  ForEachSamplingField(
      [](const SamplingField& field, auto& value, const auto& of_model) {
        using Number = typename std::remove_reference_t<decltype(value)>::value_type;
        if (!value && !of_model && field.terminal_default) {
          value = static_cast<Number>(*field.terminal_default);
        }
      },
      asked, model);
  return asked;
}

}  // namespace sluice::cli
