// A draft model beside its target: what a step puts on the device, what the memory plan counts, and
// what becomes of one that meets an error. Whether its guesses are what it should guess is the
// engine's test.
#include "exec/draft_model_proposer.h"

#include <gtest/gtest.h>

#include "exec/executor_fixture.h"

namespace sluice::exec {
namespace {

constexpr int kModelGuesses = 3;

// An executor over the same model with itself as the draft, instead of the one without.
struct WithDraft {
  explicit WithDraft(const std::string& device_name, int blocks_too_long = 0)
      : tiny("qwen3", {.device = device_name}) {
    model::ModelOptions options = tiny.model->options();
    options.max_logits_rows = kTestSlots;
    weights::WeightPlan plan =
        model::PlanWeights(tiny.files, *tiny.device, options.activation).value();
    draft = std::move(
        model::LoadModel(tiny.files.config, std::move(plan), *tiny.device, options).value());
    std::vector<batch::KvGroup> groups = draft->groups();
    for (batch::KvGroup& group : groups) {
      group.num_blocks = tiny.store->groups()[0].num_blocks;
      group.kernel_block_tokens += blocks_too_long;
      group.block_tokens += 2 * blocks_too_long;
    }
    store = std::move(kvstore::KvStore::Make(*tiny.device, groups).value());
    tiny.executor.reset();
    tiny.executor = std::move(Make(draft.get()).value());
  }
  Result<std::unique_ptr<Executor>> Make(const model::Model* with) {
    Executor::Options options{.max_num_seqs = kTestSlots,
                              .depth = 2,
                              .draft_tokens = with == nullptr ? 0 : kModelGuesses,
                              .draft_model = with,
                              .draft_store = with == nullptr ? nullptr : store.get()};
    return Executor::Make(*tiny.device, *tiny.model, *tiny.store, options);
  }

  TinyExecutor tiny;
  std::unique_ptr<model::Model> draft;
  std::unique_ptr<kvstore::KvStore> store;
};

const std::vector<int32_t> kDraftedPrompt = {7, 8, 9, 10, 11, 12, 13, 14};

batch::BatchPlan DraftModelPrompt(uint64_t step) {
  PlanBuilder plan(step, 1);
  plan.Entry(1, 0, kDraftedPrompt, {{7}});
  plan.Start(1, {.temperature = 0.0f}, kDraftedPrompt);
  return plan.plan();
}

// A token of the sequence in slot 1 and its guesses; its table has room for them.
batch::BatchPlan Decode(uint64_t step, int32_t token, int first = 8, int guesses = kModelGuesses) {
  PlanBuilder plan(step, 1);
  plan.Entry(1, first, {token, token, token, token}, {{0}});
  batch::BatchPlan& made = plan.plan();
  made.tokens.resize(1);
  made.entries.back().query_tokens = 1;
  made.entries.back().guesses = std::max(guesses, 1);
  made.guesses = guesses;
  return made;
}

// What was guessed shows when a plan names it: all that greedy steps draw.
TEST(DraftModelProposer, ItsGuessesAreWhatTheModelDraws) {
  for (const char* const device : {"cpu", "pinned"}) {
    WithDraft with(device);
    const auto first = with.tiny.Run(DraftModelPrompt(1));
    ASSERT_TRUE(first.ok()) << first.status().message();
    ASSERT_TRUE(with.tiny.Run(Decode(2, first->tokens.at(0).id)).ok());
    PlanBuilder plan(3, 1);
    std::vector<TestRow> rows;
    for (int i = 0; i < kModelGuesses; ++i)
      rows.push_back({i, batch::RowPurpose::kVerify, batch::KnownToken(i + 1)});
    rows.push_back({kModelGuesses, batch::RowPurpose::kVerify, -1});
    plan.Entry(
        1, 9, {batch::kLastDrawn, batch::KnownToken(1), batch::KnownToken(2), batch::KnownToken(3)},
        rows);
    const auto verified = with.tiny.Run(plan.plan());
    ASSERT_TRUE(verified.ok()) << verified.status().message();
    EXPECT_EQ(verified->tokens.size(), kModelGuesses + 1u) << device << ": all of them are right";
  }
}

TEST(DraftModelProposer, AnyNumberOfGuessesIsTwoReplays) {
  WithDraft with("pinned");
  ASSERT_TRUE(with.tiny.Run(DraftModelPrompt(1)).ok());
  uint64_t step = 2;
  for (int guesses = -1; guesses <= kModelGuesses; ++guesses) {
    for (int i = 0; i < 4; ++i) {
      const int64_t before = with.tiny.queued().counts().replays;
      const auto result = with.tiny.Run(Decode(step++, 5, 8, guesses));
      ASSERT_TRUE(result.ok()) << result.status().message();
      if (i < 3) continue;
      EXPECT_EQ(with.tiny.queued().counts().replays - before, 2) << guesses;
    }
  }
}

TEST(DraftModelProposer, WhatItTakesIsPlanned) {
  WithDraft with("pinned");
  const auto used = [&] {
    const device::MemoryInfo memory = with.tiny.device->Memory().value();
    return memory.total_bytes - memory.free_bytes;
  };
  const auto bytes = [&](const model::Model* draft) {
    const size_t before = used();
    const auto executor = with.Make(draft);
    EXPECT_TRUE(executor.ok());
    return used() - before;
  };
  const files::ModelConfig& config = with.tiny.model->config();
  const DraftOf draft{.model = &config, .options = with.draft->options()};
  const size_t planned =
      Executor::DeviceBytes(config, with.tiny.model->options(), kTestSlots, draft);
  EXPECT_GT(bytes(with.draft.get()), bytes(nullptr));
  EXPECT_LE(bytes(with.draft.get()), planned + (64 << 10));
}

// Its attention refuses blocks of another length than it was bound for.
TEST(DraftModelProposer, OneThatMeetsAnErrorGuessesNoMoreAndAnswersGoOn) {
  WithDraft sound("cpu"), with("cpu", kTestKernelBlock);
  for (uint64_t step = 1; step < 5; ++step) {
    const auto plan = [&] { return step == 1 ? DraftModelPrompt(step) : Decode(step, 5); };
    const auto expected = sound.tiny.Run(plan()), result = with.tiny.Run(plan());
    ASSERT_TRUE(expected.ok() && result.ok()) << result.status().message();
    EXPECT_EQ(result->tokens.at(0).id, expected->tokens.at(0).id);
  }
  EXPECT_FALSE(sound.tiny.executor->Totals().drafts_failed);
  EXPECT_TRUE(with.tiny.executor->Totals().drafts_failed);
}

}  // namespace
}  // namespace sluice::exec
