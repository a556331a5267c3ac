#include "cli/sampling_options.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

namespace sluice::cli {
namespace {

TEST(SamplingOptions, AnUnsetFieldTakesTheModelsValueElseTheTerminals) {
  Sampling asked, model;
  asked.top_k = 3;
  model.top_k = 9;
  model.temperature = 0;
  const Sampling sampling = WithTerminalDefaults(asked, model);
  EXPECT_EQ(sampling.top_k, 3);
  EXPECT_FALSE(sampling.temperature.has_value());  // the engine fills in the model's
  EXPECT_EQ(sampling.top_p, 0.95);
  EXPECT_EQ(sampling.min_p, 0.05);
  EXPECT_FALSE(sampling.repetition_penalty.has_value());
}

TEST(SamplingOptions, FlagsTakeWhatARequestMayAskFor) {
  const auto taken = [](const std::string& flag, const std::string& value) {
    CLI::App app;
    Sampling sampling;
    AddSamplingOptions(app, &sampling);
    try {
      app.parse(flag + " " + value);
    } catch (const CLI::ValidationError&) {
      return false;
    }
    return true;
  };
  EXPECT_TRUE(taken("--top-p", "1"));
  EXPECT_FALSE(taken("--top-p", "0"));
  EXPECT_FALSE(taken("--top-p", "1.5"));
  EXPECT_FALSE(taken("--temperature", "nan"));
  EXPECT_FALSE(taken("--temperature", "101"));
  EXPECT_FALSE(taken("--repetition-penalty", "0"));
  EXPECT_FALSE(taken("--top-k", "-1"));
}

TEST(SamplingOptions, MinusOneDrawsASeedAndOtherNegativesAreRefused) {
  const auto seed = [](const std::string& value) {
    CLI::App app;
    Sampling sampling;
    sampling.seed = 3;
    AddSamplingOptions(app, &sampling);
    app.parse("--seed " + value);
    return sampling.seed;
  };
  EXPECT_EQ(seed("-1"), std::nullopt);
  EXPECT_EQ(seed("7"), 7u);
  EXPECT_EQ(seed("18446744073709551615"), 18446744073709551615u);
  for (const char* value : {"-2", "1.5", "18446744073709551616", "x"}) {
    EXPECT_THROW(seed(value), CLI::ValidationError) << value;
  }
}

TEST(SamplingOptions, MinusOneIsNoLimitOfTokens) {
  const auto count = [](const std::string& value) {
    CLI::App app;
    int taken = 5;
    AddMaxTokens(app, 1, "tokens", &taken);
    app.parse("-n " + value);
    return taken;
  };
  EXPECT_EQ(count("-1"), kNoLimit);
  EXPECT_EQ(count("1"), 1);
  for (const char* value : {"-2", "0", "16777217", "x"}) {
    EXPECT_THROW(count(value), CLI::ValidationError) << value;
  }
}

TEST(SamplingOptions, WithNeitherFlagNorModelItIsCalm) {
  const Sampling sampling = WithTerminalDefaults({}, {});
  EXPECT_EQ(sampling.temperature, 0.7);
  EXPECT_EQ(sampling.top_k, 40);
}

}  // namespace
}  // namespace sluice::cli
