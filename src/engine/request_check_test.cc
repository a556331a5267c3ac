#include "engine/request_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace sluice::engine {
namespace {

constexpr int kVocab = 100;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(CheckRequest, WhatOneMayAskFor) {
  Request request;
  EXPECT_TRUE(CheckRequest(request, kVocab).ok());
  request.prompt = std::vector<int32_t>{0, 99};
  request.n = 16;
  request.max_tokens = 0;
  request.logprobs = 20;
  request.prompt_logprobs = 0;
  request.sampling.temperature = 0;
  request.sampling.top_k = -1;
  request.sampling.top_p = 1;
  request.sampling.logit_bias = {{1 << 30, 100.0}, {-5, -100.0}};  // unknown ids are ignored
  request.stop.assign(16, std::string(256, 'x'));
  request.stop_token_ids = {0, 99};
  EXPECT_TRUE(CheckRequest(request, kVocab).ok());
}

TEST(CheckRequest, MinTokensAboveMaxTokensNamesBothNumbers) {
  Request request;
  request.max_tokens = 16;
  request.min_tokens = 17;
  EXPECT_EQ(CheckRequest(request, kVocab).message(),
            "min_tokens is 17; it must be between 0 and max_tokens, 16");
}

TEST(CheckRequest, EveryFieldOutOfRangeIsNamed) {
  struct Case {
    std::string field;
    std::function<void(Request&)> spoil;
  };
  const std::vector<Case> cases = {
      {"n", [](Request& r) { r.n = 0; }},
      {"n", [](Request& r) { r.n = 17; }},
      {"max_tokens", [](Request& r) { r.max_tokens = -1; }},
      {"min_tokens", [](Request& r) { r.min_tokens = -1; }},
      {"min_tokens",
       [](Request& r) {
         r.max_tokens = 3;
         r.min_tokens = 4;
       }},
      {"logprobs", [](Request& r) { r.logprobs = 21; }},
      {"logprobs", [](Request& r) { r.logprobs = -1; }},
      {"prompt_logprobs", [](Request& r) { r.prompt_logprobs = 21; }},
      {"temperature", [](Request& r) { r.sampling.temperature = -0.1; }},
      {"temperature", [](Request& r) { r.sampling.temperature = kNan; }},
      {"temperature", [](Request& r) { r.sampling.temperature = INFINITY; }},
      {"top_p", [](Request& r) { r.sampling.top_p = 0; }},
      {"top_p", [](Request& r) { r.sampling.top_p = 1.1; }},
      {"top_p", [](Request& r) { r.sampling.top_p = kNan; }},
      {"min_p", [](Request& r) { r.sampling.min_p = -0.1; }},
      {"min_p", [](Request& r) { r.sampling.min_p = kNan; }},
      {"repetition_penalty", [](Request& r) { r.sampling.repetition_penalty = 0; }},
      {"repetition_penalty", [](Request& r) { r.sampling.repetition_penalty = kNan; }},
      {"presence_penalty", [](Request& r) { r.sampling.presence_penalty = 2.1; }},
      {"frequency_penalty", [](Request& r) { r.sampling.frequency_penalty = kNan; }},
      {"no_repeat_ngram_size", [](Request& r) { r.sampling.no_repeat_ngram = -1; }},
      {"logit_bias",
       [](Request& r) {
         r.sampling.logit_bias = {{1, 101.0}};
       }},
      {"logit_bias",
       [](Request& r) {
         r.sampling.logit_bias = {{1, kNan}};
       }},
      {"logit_bias", [](Request& r) { r.sampling.logit_bias.resize(1025); }},
      {"stop", [](Request& r) { r.stop.assign(17, "x"); }},
      {"stop", [](Request& r) { r.stop = {""}; }},
      {"stop", [](Request& r) { r.stop = {std::string(257, 'x')}; }},
      {"stop_token_ids", [](Request& r) { r.stop_token_ids = {100}; }},
      {"stop_token_ids", [](Request& r) { r.stop_token_ids = {-1}; }},
      {"stop_token_ids", [](Request& r) { r.stop_token_ids.assign(1025, 1); }},
      {"prompt",
       [](Request& r) {
         r.prompt = std::vector<int32_t>{1, 100};
       }},
      {"prompt", [](Request& r) { r.prompt = std::vector<int32_t>{-1}; }},
  };
  for (const Case& one : cases) {
    Request request;
    one.spoil(request);
    const Status status = CheckRequest(request, kVocab);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << one.field;
    EXPECT_EQ(status.field(), one.field);
    EXPECT_THAT(status.message(), ::testing::HasSubstr(one.field));
  }
}

TEST(CheckRequest, ChoicesHaveLimits) {
  const auto refused = [](std::vector<std::string> choice) {
    Request request;
    request.choice = std::move(choice);
    const Status status = CheckRequest(request, kVocab);
    EXPECT_EQ(status.field(), status.ok() ? "" : "choice");
    return status.code() == StatusCode::kInvalidArgument;
  };
  EXPECT_FALSE(refused({"a", "b", "ab"}));
  EXPECT_TRUE(refused({"a", ""}));
  EXPECT_TRUE(refused({"a", "b", "a"}));
  EXPECT_TRUE(refused({"\xff"}));
  EXPECT_FALSE(refused({std::string(1 << 20, 'x')}));
  EXPECT_TRUE(refused({std::string(1 << 20, 'x'), "y"}));
  std::vector<std::string> many;
  for (int i = 0; i < 1000; ++i) many.push_back(std::to_string(i));
  EXPECT_FALSE(refused(many));
  many.push_back("one more");
  EXPECT_TRUE(refused(many));
}

TEST(SamplingFields, SomeValuesChangeNoDraw) {
  using namespace sampling_fields;
  for (const double value : {-2.0, 0.0}) EXPECT_TRUE(IsNeutral(kTopK, value)) << value;
  EXPECT_FALSE(IsNeutral(kTopK, 1));
  for (const double value : {0.0, 1.0}) EXPECT_TRUE(IsNeutral(kTemperature, value)) << value;
  EXPECT_FALSE(IsNeutral(kTemperature, 0.5));
  EXPECT_TRUE(IsNeutral(kPresencePenalty, 0));
  EXPECT_FALSE(IsNeutral(kPresencePenalty, -1));
}

TEST(SamplingFields, GreedyIsGreedyInEveryStruct) {
  EXPECT_EQ(Greedy(Sampling{.top_p = 0.5}).temperature, 0.0);
  EXPECT_EQ(Greedy(Sampling{.top_p = 0.5}).top_p, 0.5);
  EXPECT_TRUE(Greedy(batch::SamplingParams{}).greedy());
}

TEST(ResolveSampling, TheRequestComesBeforeTheModelAndTheModelBeforeOpenAi) {
  Request request;
  files::GenerationDefaults defaults;
  request.sampling.seed = std::numeric_limits<uint64_t>::max();
  batch::SamplingParams params = ResolveSampling(request, defaults);
  EXPECT_EQ(params.temperature, 1.0f);
  EXPECT_EQ(params.top_k, 0);
  EXPECT_EQ(params.top_p, 1.0f);
  EXPECT_EQ(params.repetition_penalty, 1.0f);
  EXPECT_EQ(params.seed, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(params.top_logprobs, -1);
  EXPECT_EQ(params.prompt_top_logprobs, -1);
  defaults.sampling.temperature = 0.6f;
  defaults.sampling.top_k = 20;
  defaults.sampling.top_p = 0.95f;
  defaults.sampling.min_p = 0.1f;
  defaults.sampling.repetition_penalty = 1.05f;
  params = ResolveSampling(request, defaults);
  EXPECT_EQ(params.temperature, 0.6f);
  EXPECT_EQ(params.top_k, 20);
  EXPECT_EQ(params.top_p, 0.95f);
  EXPECT_EQ(params.min_p, 0.1f);
  EXPECT_EQ(params.repetition_penalty, 1.05f);
  request.sampling.temperature = 0.25;
  request.sampling.top_k = 0;
  request.sampling.top_p = 1;
  request.sampling.seed = 9;
  request.prompt_loss = true;
  params = ResolveSampling(request, defaults);
  EXPECT_EQ(params.temperature, 0.25f);
  EXPECT_EQ(params.top_k, 0);
  EXPECT_EQ(params.top_p, 1.0f);
  EXPECT_EQ(params.seed, 9u);
  EXPECT_EQ(params.prompt_top_logprobs, 0);
}

TEST(ResolveSampling, AModelThatSaysNotToSampleIsGreedyUnlessAsked) {
  Request request;
  files::GenerationDefaults defaults;
  defaults.do_sample = false;
  defaults.sampling.temperature = 0.6f;
  EXPECT_EQ(ResolveSampling(request, defaults).temperature, 0.0f);
  request.sampling.temperature = 0.5;
  EXPECT_EQ(ResolveSampling(request, defaults).temperature, 0.5f);
}

TEST(SamplingOf, SaysWhatTheModelSaysAndNothingElse) {
  files::GenerationDefaults defaults;
  EXPECT_FALSE(SamplingOf(defaults).temperature.has_value());
  EXPECT_FALSE(SamplingOf(defaults).top_k.has_value());
  defaults.sampling.top_k = 20;
  defaults.do_sample = false;
  EXPECT_EQ(SamplingOf(defaults).top_k, 20);
  EXPECT_EQ(SamplingOf(defaults).temperature, 0.0);
}

TEST(CheckOptions, DefaultsAreInRangeAndNumbersOutsideAreNamed) {
  EXPECT_TRUE(CheckOptions({}).ok());
  EngineOptions options;
  options.text_workers = 65;
  const Status status = CheckOptions(options);
  EXPECT_EQ(status.field(), "text-workers");
  EXPECT_THAT(status.message(), ::testing::HasSubstr("65"));
}

}  // namespace
}  // namespace sluice::engine
