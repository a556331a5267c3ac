#include "cli/sampling_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/check_range.h"
#include "base/parse_number.h"
#include "base/str_cat.h"
#include "sluice/sampling.h"

namespace sluice::cli {
namespace {

constexpr const char* kSamplingGroup = "Sampling options";
// As a seed, as HTTP takes it, too.
constexpr std::string_view kDrawn = "-1";

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
  const std::string flag = FlagOf(field.name);
  const auto check = [](const std::string& text) {
    if (text == kDrawn || ParseNumber<uint64_t>(text)) return std::string();
    return StrCat(text, " is no seed; it must be from 0 to ", std::numeric_limits<uint64_t>::max(),
                  ", or -1 for one that is drawn");
  };
  app.add_option_function<std::string>(
         flag,
         [&value](const std::string& text) {
           value = text == kDrawn ? std::nullopt : ParseNumber<uint64_t>(text);
         },
         StrCat(field.flag_help, "; -1: one is drawn"))
      ->check(check, "INT >= -1")
      ->type_name("")
      ->group(kSamplingGroup);
}

}  // namespace

void AddMaxTokens(CLI::App& app, int low, const std::string& help, int* tokens) {
  const auto check = [low](const std::string& text) {
    const auto number = ParseNumber<int>(text);
    if (number && (*number == kNoLimit || (*number >= low && *number <= kMaxTokensMax)))
      return std::string();
    return StrCat(text, " is no number of tokens; it must be from ", low, " to ", kMaxTokensMax,
                  ", or ", kNoLimit, " for as many as fit");
  };
  app.add_option("-n,--max-tokens", *tokens, StrCat(help, "; ", kNoLimit, ": as many as fit"))
      ->check(check, "")
      ->capture_default_str();
}

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
