// The head of a checkpoint beside its model: what a step puts on the device, what a sink hears, and
// what the memory plan counts. Whether its guesses are any good is the engine's test.
#include <gtest/gtest.h>

#include "batch/kv_sink_checker_fixture.h"
#include "exec/executor_fixture.h"

namespace sluice::exec {
namespace {

constexpr int kHeadGuesses = 3;

// A token of the sequence in slot 1, at position 8.
batch::BatchPlan Decode(uint64_t step) {
  PlanBuilder plan(step, 1);
  plan.Entry(1, 8, {5}, {{0}});
  plan.plan().entries.back().guesses = kHeadGuesses;
  plan.plan().guesses = kHeadGuesses;
  return plan.plan();
}

batch::BatchPlan HeadPrompt(uint64_t step) {
  PlanBuilder plan(step, 1);
  plan.Entry(1, 0, {7, 8, 9, 10, 11, 12, 13, 14}, {});
  plan.plan().entries.back().next_token = 5;
  plan.Start(1, {.temperature = 0.0f}, {7, 8, 9, 10, 11, 12, 13, 14, 5});
  return plan.plan();
}

TEST(HeadProposer, AStepWithItsGuessesIsTwoReplays) {
  TinyExecutor tiny("mimo", {.device = "pinned", .draft_tokens = kHeadGuesses});
  ASSERT_TRUE(tiny.Run(HeadPrompt(1)).ok());
  std::vector<int32_t> drawn;
  for (uint64_t step = 2; step < 7; ++step) {
    const int64_t before = tiny.queued().counts().replays;
    const auto result = tiny.Run(Decode(step));
    ASSERT_TRUE(result.ok()) << result.status().message();
    drawn.push_back(result->tokens.at(0).id);
    EXPECT_EQ(tiny.queued().counts().replays - before, step > 2 ? 2 : 0);
  }
  EXPECT_EQ(drawn, std::vector<int32_t>(5, drawn[0]));
}

// Each number of guesses has graphs of its own, and so have the head's KV alone and neither.
TEST(HeadProposer, AnyNumberOfGuessesIsTwoReplays) {
  TinyExecutor tiny("mimo", {.device = "pinned", .draft_tokens = kHeadGuesses});
  ASSERT_TRUE(tiny.Run(HeadPrompt(1)).ok());
  uint64_t step = 2;
  for (int guesses = -1; guesses <= kHeadGuesses; ++guesses) {
    for (int i = 0; i < 4; ++i) {
      batch::BatchPlan plan = Decode(step++);
      plan.guesses = guesses;
      const int64_t before = tiny.queued().counts().replays;
      const auto result = tiny.Run(std::move(plan));
      ASSERT_TRUE(result.ok()) << result.status().message();
      if (i < 3) continue;
      EXPECT_EQ(tiny.queued().counts().replays - before, 2) << guesses;
    }
  }
}

// The head's attention, too, once for each guess.
TEST(HeadProposer, InPiecesItRunsBetweenGraphsAtEachAttention) {
  TinyExecutor whole("mimo", {.device = "pinned", .draft_tokens = kHeadGuesses});
  TinyExecutor tiny("mimo", {.device = "pinned",
                             .graphs = device::GraphSupport::kPiecewise,
                             .draft_tokens = kHeadGuesses});
  for (uint64_t step = 1; step < 6; ++step) {
    const auto plan = [&] { return step == 1 ? HeadPrompt(step) : Decode(step); };
    const int64_t before = tiny.queued().counts().replays;
    const auto result = tiny.Run(plan()), expected = whole.Run(plan());
    ASSERT_TRUE(result.ok() && expected.ok());
    EXPECT_EQ(result->tokens.size(), expected->tokens.size());
    if (step > 1) {
      EXPECT_EQ(result->tokens.at(0).id, expected->tokens.at(0).id);
    }
    EXPECT_EQ(tiny.queued().counts().replays - before,
              step > 2 ? 2 + tiny.model->config().num_layers + kHeadGuesses : 0);
  }
}

TEST(HeadProposer, TheSinkHearsOfTheHeadsLayerBehindTheModels) {
  for (const char* device : {"cpu", "pinned"}) {
    TinyExecutor tiny("mimo", {.device = device, .draft_tokens = kHeadGuesses});
    ASSERT_EQ(tiny.store->layer_count(), tiny.model->config().num_layers + 1);
    batch::KvSinkChecker checker(tiny.store->layer_count(), nullptr);
    for (uint64_t step = 1; step < 5; ++step) {
      const auto result = tiny.Run(step == 1 ? HeadPrompt(step) : Decode(step), nullptr, &checker);
      EXPECT_TRUE(result.ok()) << device << ": " << result.status().message();
    }
  }
}

TEST(HeadProposer, WhatTheHeadTakesIsPlanned) {
  TinyExecutor tiny("mimo", {.device = "pinned", .draft_tokens = kHeadGuesses});
  const auto used = [&] {
    const device::MemoryInfo memory = tiny.device->Memory().value();
    return memory.total_bytes - memory.free_bytes;
  };
  const auto bytes = [&](int guesses) {
    const size_t before = used();
    const auto executor = Executor::Make(*tiny.device, *tiny.model, *tiny.store,
                                         {.max_num_seqs = kTestSlots, .draft_tokens = guesses});
    EXPECT_TRUE(executor.ok());
    return used() - before;
  };
  const model::ModelOptions& options = tiny.model->options();
  const files::ModelConfig& config = tiny.model->config();
  const size_t with = bytes(kHeadGuesses), without = bytes(0);
  EXPECT_GT(with, without + options.max_tokens * config.hidden_size * sizeof(float));
  EXPECT_LE(with, Executor::DeviceBytes(config, options, kTestSlots) + (64 << 10));
}

}  // namespace
}  // namespace sluice::exec
