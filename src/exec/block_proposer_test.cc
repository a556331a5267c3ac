// A head of the parallel form, or of DFlash's, beside its model: what a step puts on the device,
// and what the memory plan counts. Whether its guesses are any good is the engine's test.
#include <gtest/gtest.h>

#include "exec/executor_fixture.h"

namespace sluice::exec {
namespace {

constexpr int kBlockGuesses = 4;

struct WithBlock {
  explicit WithBlock(const std::string& device_name, const std::string& name = "block")
      : tiny("../drafts/target", {.device = device_name}) {
    files = files::OpenEagle(tiny.files.path + "/../" + name).value();
    model::ModelOptions options =
        model::EagleHead::OptionsFor(tiny.model->options(), files.config.form);
    options.max_logits_rows = kTestSlots * BlockTokens(files.config.form, kBlockGuesses);
    weights::WeightPlan plan =
        model::EagleHead::PlanWeights(files, *tiny.device, options.activation).value();
    head = std::move(
        model::EagleHead::Load(files.config, std::move(plan), *tiny.device, options, *tiny.model)
            .value());
    std::vector<batch::KvGroup> groups = head->groups();
    groups.front().num_blocks = tiny.store->groups()[0].num_blocks;
    store = std::move(kvstore::KvStore::Make(*tiny.device, groups).value());
    tiny.executor.reset();
    tiny.executor = std::move(Make(head.get(), false).value());
  }
  Result<std::unique_ptr<Executor>> Make(const model::EagleHead* with, bool rejects) {
    Executor::Options options{.max_num_seqs = kTestSlots,
                              .depth = 2,
                              .draft_tokens = with == nullptr ? 0 : kBlockGuesses,
                              .eagle_head = with,
                              .draft_store = with == nullptr ? nullptr : store.get(),
                              .rejects = rejects};
    return Executor::Make(*tiny.device, *tiny.model, *tiny.store, options);
  }

  TinyExecutor tiny;
  files::EagleFiles files;
  std::unique_ptr<model::EagleHead> head;
  std::unique_ptr<kvstore::KvStore> store;
};

// `tokens` of each of `slots` from position `first` on, behind which the tables have room for
// guesses.
batch::BatchPlan Guess(uint64_t step, int first, const std::vector<batch::TokenRef>& tokens,
                       int guesses, const std::vector<int>& slots = {1}) {
  PlanBuilder plan(step, 1);
  for (const int slot : slots) {
    std::vector<batch::TokenRef> room = tokens;
    room.resize(tokens.size() + kBlockGuesses + 1, tokens.back());  // one more of DFlash's form
    plan.Entry(slot, first, room, {{static_cast<int>(tokens.size()) - 1}});
    plan.plan().tokens.resize(plan.plan().tokens.size() - kBlockGuesses - 1);
    plan.plan().entries.back().query_tokens = static_cast<int32_t>(tokens.size());
    plan.plan().entries.back().guesses = std::max(guesses, 1);
    if (first > 0) continue;
    plan.Start(slot, {.temperature = 0.0f}, tokens);
  }
  plan.plan().guesses = guesses;
  return plan.plan();
}

const std::vector<int32_t> kBlockPrompt = {7, 8, 9, 10, 11, 12, 13, 14};

// What a step draws, and how many of its guesses the next one finds right.
std::vector<int32_t> DrawnWith(WithBlock* with, const std::vector<int>& slots) {
  EXPECT_TRUE(with->tiny.Run(Guess(1, 0, kBlockPrompt, kBlockGuesses, slots)).ok());
  PlanBuilder plan(2, 1);
  std::vector<TestRow> rows;
  std::vector<batch::TokenRef> tokens = {batch::kLastDrawn};
  for (int i = 0; i < kBlockGuesses; ++i) {
    rows.push_back({i, batch::RowPurpose::kVerify, batch::KnownToken(i + 1)});
    tokens.push_back(batch::KnownToken(i + 1));
  }
  rows.push_back({kBlockGuesses, batch::RowPurpose::kVerify, -1});
  plan.Entry(1, static_cast<int>(kBlockPrompt.size()), tokens, rows);
  const auto result = with->tiny.Run(plan.plan());
  EXPECT_TRUE(result.ok()) << result.status().message();
  std::vector<int32_t> drawn;
  for (const auto& token : result->tokens) drawn.push_back(token.id);
  return drawn;
}

// By the name of a head.
class BlockProposer : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, BlockProposer, ::testing::Values("block", "dflash"),
                         [](const auto& of) { return std::string(of.param); });

// Alone, and beside others whose blocks stand in the same pass, with room for more in the graph.
TEST_P(BlockProposer, GuessesAreThoseOfTheSequenceAlone) {
  WithBlock alone("cpu", GetParam());
  const std::vector<int32_t> expected = DrawnWith(&alone, {1});
  EXPECT_GT(expected.size(), 1u) << "no guess is right";
  for (const char* const device : {"cpu", "pinned"}) {
    WithBlock with(device, GetParam());
    EXPECT_EQ(DrawnWith(&with, {0, 1, 2}), expected) << device;
  }
}

TEST_P(BlockProposer, AnyNumberOfGuessesIsTwoReplays) {
  WithBlock with("pinned", GetParam());
  ASSERT_TRUE(with.tiny.Run(Guess(1, 0, kBlockPrompt, 0)).ok());
  uint64_t step = 2;
  for (int guesses = -1; guesses <= kBlockGuesses; ++guesses) {
    for (int i = 0; i < 4; ++i) {
      const int64_t before = with.tiny.queued().counts().replays;
      const auto result =
          with.tiny.Run(Guess(step++, static_cast<int>(kBlockPrompt.size()), {5}, guesses));
      ASSERT_TRUE(result.ok()) << result.status().message();
      if (i < 3) continue;
      EXPECT_EQ(with.tiny.queued().counts().replays - before, 2) << guesses;
    }
  }
}

TEST_P(BlockProposer, WhatItTakesIsPlanned) {
  WithBlock with("pinned", GetParam());
  const auto used = [&] {
    const device::MemoryInfo memory = with.tiny.device->Memory().value();
    return memory.total_bytes - memory.free_bytes;
  };
  for (const bool rejects : {false, true}) {
    const auto bytes = [&](const model::EagleHead* head) {
      const size_t before = used();
      const auto executor = with.Make(head, rejects);
      EXPECT_TRUE(executor.ok());
      return used() - before;
    };
    const DraftOf draft{.eagle = &with.files.config,
                        .options = with.head->options(),
                        .drawn = rejects ? kBlockGuesses : 0,
                        .tokens = kBlockGuesses};
    EXPECT_EQ(draft.block(), BlockTokens(with.files.config.form, kBlockGuesses));
    const size_t planned = Executor::DeviceBytes(with.tiny.model->config(),
                                                 with.tiny.model->options(), kTestSlots, draft);
    const size_t logits = size_t{kTestSlots} * static_cast<size_t>(draft.block()) * sizeof(float) *
                          with.files.config.draft_vocab_size;
    EXPECT_GT(bytes(with.head.get()), bytes(nullptr) + logits) << rejects;
    EXPECT_LE(bytes(with.head.get()), planned + (64 << 10)) << rejects;
  }
}

}  // namespace
}  // namespace sluice::exec
