#include "cli/sampling_options.h"

#include <CLI/CLI.hpp>

#include "base/check_range.h"
#include "base/str_cat.h"
#include "sluice/limits.h"

namespace sluice::cli {
namespace {

constexpr double kTemperature = 0.7;
constexpr double kTopP = 0.95;
constexpr int kTopK = 40;
constexpr double kMinP = 0.05;

void Add(CLI::App& app, const char* flag, std::optional<double>& field, const std::string& help,
         limits::Range range) {
  const auto check = [range](const std::string& text) {
    double value = 0;
    if (!CLI::detail::lexical_cast(text, value)) return StrCat(text, " is not a number");
    return CheckRange("the value", value, range).message();
  };
  app.add_option(flag, field, help)
      ->check(check, StrCat("FLOAT in [", range.low, " - ", range.high, "]"))
      ->group("Sampling options");
}

template <class T>
void FillIn(std::optional<T>& asked, const std::optional<T>& model, T otherwise) {
  if (!asked && !model) asked = otherwise;
}

}  // namespace

void AddSamplingOptions(CLI::App& app, Sampling* sampling) {
  const auto otherwise = [](auto value) { return StrCat("; default: the model's, or ", value); };
  Add(app, "--temperature", sampling->temperature, "0: greedy" + otherwise(kTemperature),
      limits::kTemperature);
  Add(app, "--top-p", sampling->top_p,
      "draw from the likeliest tokens of this sum" + otherwise(kTopP), limits::kTopP);
  app.add_option("--top-k", sampling->top_k,
                 "draw from so many tokens; 0: from all" + otherwise(kTopK))
      ->check(CLI::NonNegativeNumber)
      ->group("Sampling options");
  Add(app, "--min-p", sampling->min_p,
      "leave out what is below this part of the best" + otherwise(kMinP), limits::kMinP);
  Add(app, "--repetition-penalty", sampling->repetition_penalty,
      "above 1: repeats less" + otherwise(1), limits::kRepetitionPenalty);
  app.add_option("--seed", sampling->seed, "for the same answer again")->group("Sampling options");
}

Sampling WithTerminalDefaults(Sampling asked, const Sampling& model) {
  FillIn(asked.temperature, model.temperature, kTemperature);
  FillIn(asked.top_p, model.top_p, kTopP);
  FillIn(asked.top_k, model.top_k, kTopK);
  FillIn(asked.min_p, model.min_p, kMinP);
  return asked;
}

}  // namespace sluice::cli
