#include "engine/expert_report.h"

#include <algorithm>
#include <set>

#include "engine/engine_fixture.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

// The tiny checkpoint has two layers of eight experts, of which a token takes three.
constexpr int kLayers = 2, kExperts = 8, kPerToken = 3;

Json Experts(Engine& engine, const std::string& more = "") {
  const auto answer = engine.Admin(R"({"command": "experts")" + more + "}");
  EXPECT_TRUE(answer.ok()) << answer.status().message();
  return answer.ok() ? Json::parse(*answer) : Json();
}

TEST(ExpertReport, EveryChoiceOfEveryTokenIsCounted) {
  const auto engine = OpenTiny(TinyOptions("qwen3_moe"));
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(Experts(*engine)["choices"], 0);
  const auto answer = Ask(*engine, TinyRequest({1, 75, 65, 67, 20, 98, 13}, 9));
  ASSERT_TRUE(answer->error.ok()) << answer->error.message();
  // The last token of an answer is drawn and not computed.
  const int tokens = 7 + 9 - 1;
  const Json report = Experts(*engine);
  EXPECT_EQ(report["experts"], kExperts);
  EXPECT_EQ(report["choices"], tokens * kPerToken * kLayers);
  ASSERT_EQ(report["layers"].size(), static_cast<size_t>(kLayers));
  for (const Json& layer : report["layers"]) {
    ASSERT_EQ(layer["load"].size(), static_cast<size_t>(kExperts));
    double sum = 0, largest = 0;
    for (const Json& load : layer["load"]) {
      EXPECT_LE(load.get<double>(), tokens);  // a token takes an expert once
      sum += load.get<double>();
      largest = std::max(largest, load.get<double>());
    }
    // Some of it may have been counted a moment before the rest.
    EXPECT_NEAR(sum, tokens * kPerToken, 0.5);
    EXPECT_NEAR(layer["imbalance"].get<double>(), largest * kExperts / sum, 0.01);
  }
  Settle(*engine);
  EXPECT_EQ(Metric(*engine, "sluice_expert_choices_total"), tokens * kPerToken * kLayers);
  EXPECT_NEAR(Metric(*engine, "sluice_expert_load"), tokens * kPerToken * kLayers, 1.0);
  EXPECT_GE(Metric(*engine, "sluice_expert_imbalance"), kLayers);  // each is 1 at least
}

TEST(ExpertReport, AFakedBalanceIsBalanced) {
  EngineOptions options = TinyOptions("qwen3_moe");
  options.fake_balance_experts = true;
  const auto engine = OpenTiny(options);
  ASSERT_NE(engine, nullptr);
  // A prompt in one step, whose tokens take all experts equally often.
  Ask(*engine, TinyRequest(std::vector<int32_t>(32, 5), 1));
  EXPECT_EQ(Experts(*engine)["imbalance"], 1.0);
}

TEST(ExpertReport, PlansAreForTheLoadsSeen) {
  const auto engine = OpenTiny(TinyOptions("qwen3_moe"));
  ASSERT_NE(engine, nullptr);
  Ask(*engine, TinyRequest({1, 75, 65, 67, 20, 98, 13, 12, 99, 7}, 40));
  const Json plan = Experts(*engine, R"(, "ranks": 3, "replicas": 4)")["plan"];
  EXPECT_EQ(plan["policy"], "global");
  EXPECT_EQ(plan["slots_per_rank"], 4);
  EXPECT_LE(plan["imbalance"].get<double>(), plan["imbalance_in_order"].get<double>());
  ASSERT_EQ(plan["layers"].size(), static_cast<size_t>(kLayers));
  for (const Json& layer : plan["layers"]) {
    ASSERT_EQ(layer["ranks"].size(), 3u);
    std::set<int> placed;
    for (const Json& rank : layer["ranks"]) {
      EXPECT_EQ(rank.size(), 4u);
      for (const Json& expert : rank) placed.insert(expert.get<int>());
    }
    EXPECT_EQ(placed.size(), static_cast<size_t>(kExperts));
  }
}

TEST(ExpertReport, WhatCannotBeAnsweredSaysWhy) {
  const auto dense = OpenTiny(TinyOptions());
  ASSERT_NE(dense, nullptr);
  const Status none = dense->Admin(R"({"command": "experts"})").status();
  EXPECT_EQ(none.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(none.message(), HasSubstr("has no experts"));
  EXPECT_EQ(Metric(*dense, "sluice_expert_load"), -1);
  const auto engine = OpenTiny(TinyOptions("qwen3_moe"));
  ASSERT_NE(engine, nullptr);
  const auto refused = [&](const std::string& more) {
    const Status status = engine->Admin(R"({"command": "experts", )" + more + "}").status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << more;
    return status.field();
  };
  EXPECT_EQ(refused(R"("ranks": 0)"), "ranks");
  EXPECT_EQ(refused(R"("ranks": 9)"), "ranks");
  EXPECT_EQ(refused(R"("ranks": "two")"), "ranks");
  EXPECT_EQ(refused(R"("ranks": 2, "replicas": -1)"), "replicas");
  EXPECT_EQ(refused(R"("ranks": 2, "replicas": 9)"), "replicas");
  EXPECT_EQ(refused(R"("ranks": 2, "nodes": 2)"), "nodes");  // the router has one group
  EXPECT_EQ(refused(R"("replicas": 2)"), "ranks");
}

}  // namespace
}  // namespace sluice::engine
