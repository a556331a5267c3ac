#include "cli/sampling_options.h"

#include <CLI/CLI.hpp>

#include "base/str_cat.h"

namespace sluice::cli {
namespace {

constexpr double kTemperature = 0.7;
constexpr double kTopP = 0.95;
constexpr int kTopK = 40;
constexpr double kMinP = 0.05;

template <class T>
void Add(CLI::App& app, const char* flag, std::optional<T>& field, const std::string& help, T low,
         T high) {
  app.add_option(flag, field, help)->check(CLI::Range(low, high))->group("Sampling options");
}

template <class T>
void FillIn(std::optional<T>& asked, const std::optional<T>& model, T otherwise) {
  if (!asked && !model) asked = otherwise;
}

}  // namespace

void AddSamplingOptions(CLI::App& app, Sampling* sampling) {
  const auto otherwise = [](auto value) { return StrCat("; default: the model's, or ", value); };
  Add(app, "--temperature", sampling->temperature, "0: greedy" + otherwise(kTemperature), 0.0,
      100.0);
  Add(app, "--top-p", sampling->top_p,
      "draw from the likeliest tokens of this sum" + otherwise(kTopP), 0.0, 1.0);
  Add(app, "--top-k", sampling->top_k, "draw from so many tokens; 0: from all" + otherwise(kTopK),
      0, 1 << 24);
  Add(app, "--min-p", sampling->min_p,
      "leave out what is below this part of the best" + otherwise(kMinP), 0.0, 1.0);
  Add(app, "--repetition-penalty", sampling->repetition_penalty,
      "above 1: repeats less" + otherwise(1), 0.01, 100.0);
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
