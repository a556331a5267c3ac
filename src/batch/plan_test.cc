#include "batch/plan.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace sluice::batch {
namespace {

BatchPlan FullPlan() {
  BatchPlan plan;
  plan.step = 42;
  plan.entries = {{.sequence = 7,
                   .slot = 3,
                   .first_position = 11,
                   .query_tokens = 2,
                   .token_begin = 0,
                   .logits_begin = 0,
                   .logits_count = 2,
                   .second_text = 1,
                   .masked = true},
                  {.sequence = 9, .query_tokens = 1, .token_begin = 2, .logits_begin = 2}};
  plan.tokens = {5, 6, kLastDrawn};
  plan.logits_rows = {{0, 6, RowPurpose::kVerify}, {1, -1, RowPurpose::kSample}};
  plan.parents = {0, 1};
  plan.groups = {{{0, 2, 3}, {0, 7}, {4, 5, 6}}, {{0, 1, 1}, {2, 3}, {-1}}};
  plan.copies = {{1, 2, 3}};
  SlotStart start;
  start.slot = 3;
  start.sampling.temperature = 0.5f;
  start.sampling.seed = 1234567890123ull;
  start.sampling.distribution = Distribution::kRaw;
  start.sampling.logit_bias = {{17, -1.5f}};
  start.sampling.end_ids = {2, 3};
  start.prompt_tokens = 2;
  start.history = {1, 2, 3};
  plan.starts = {start};
  return plan;
}

TEST(PlanSerialization, AFullPlanComesBackEqual) {
  const BatchPlan plan = FullPlan();
  Result<BatchPlan> back = Deserialize(Serialize(plan));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, plan);
}

TEST(PlanSerialization, AnEmptyPlanComesBackEqual) {
  BatchPlan plan;
  plan.step = 1;
  plan.groups.resize(2);
  Result<BatchPlan> back = Deserialize(Serialize(plan));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, plan);
}

// Every member, changed to another sound value, comes back as it was changed.
TEST(PlanSerialization, EveryFieldTakesPart) {
  using Change = void (*)(BatchPlan&);
  const std::vector<Change> changes = {
      [](BatchPlan& p) { p.step = 43; },
      [](BatchPlan& p) { p.guesses = 3; },
      [](BatchPlan& p) { p.entries[0].sequence = 8; },
      [](BatchPlan& p) { p.entries[0].slot = 4; },
      [](BatchPlan& p) { p.entries[0].told_whole = 41; },
      [](BatchPlan& p) { p.entries[0].first_position = 12; },
      [](BatchPlan& p) { p.entries[0].unsure = 2; },
      [](BatchPlan& p) { p.entries[0].query_tokens = 1; },
      [](BatchPlan& p) { p.entries[1].token_begin = 1; },
      [](BatchPlan& p) { p.entries[1].logits_begin = 1; },
      [](BatchPlan& p) { p.entries[0].logits_count = 1; },
      [](BatchPlan& p) { p.entries[0].next_token = 8; },
      [](BatchPlan& p) { p.entries[0].guesses = 2; },
      [](BatchPlan& p) { p.entries[0].second_text = 2; },
      [](BatchPlan& p) { p.entries[0].tree = 0; },
      [](BatchPlan& p) { p.entries[0].masked = false; },
      [](BatchPlan& p) { p.tokens[0] = 9; },
      [](BatchPlan& p) { p.logits_rows[0].token = 1; },
      [](BatchPlan& p) { p.logits_rows[0].target = 7; },
      [](BatchPlan& p) { p.logits_rows[0].purpose = RowPurpose::kScore; },
      [](BatchPlan& p) { p.parents[1] = 0; },
      [](BatchPlan& p) { p.groups[0].begin[1] = 1; },
      [](BatchPlan& p) { p.groups[0].first[1] = 8; },
      [](BatchPlan& p) { p.groups[0].ids[2] = 7; },
      [](BatchPlan& p) { p.copies[0].group = 0; },
      [](BatchPlan& p) { p.copies[0].source = 5; },
      [](BatchPlan& p) { p.copies[0].destination = 6; },
      [](BatchPlan& p) { p.starts[0].slot = 4; },
      [](BatchPlan& p) { p.starts[0].prompt_tokens = 1; },
      [](BatchPlan& p) { p.starts[0].history[2] = 4; },
      [](BatchPlan& p) { p.starts[0].sampling.temperature = 0.25f; },
      [](BatchPlan& p) { p.starts[0].sampling.top_k = 3; },
      [](BatchPlan& p) { p.starts[0].sampling.top_p = 0.5f; },
      [](BatchPlan& p) { p.starts[0].sampling.min_p = 0.125f; },
      [](BatchPlan& p) { p.starts[0].sampling.repetition_penalty = 1.5f; },
      [](BatchPlan& p) { p.starts[0].sampling.presence_penalty = 0.5f; },
      [](BatchPlan& p) { p.starts[0].sampling.frequency_penalty = 0.25f; },
      [](BatchPlan& p) { p.starts[0].sampling.no_repeat_ngram = 4; },
      [](BatchPlan& p) { p.starts[0].sampling.min_tokens = 1; },
      [](BatchPlan& p) { p.starts[0].sampling.seed = 5; },
      [](BatchPlan& p) { p.starts[0].sampling.choice = 2; },
      [](BatchPlan& p) { p.starts[0].sampling.top_logprobs = 6; },
      [](BatchPlan& p) { p.starts[0].sampling.top_allowed = true; },
      [](BatchPlan& p) { p.starts[0].sampling.prompt_top_logprobs = 7; },
      [](BatchPlan& p) { p.starts[0].sampling.distribution = Distribution::kFiltered; },
      [](BatchPlan& p) { p.starts[0].sampling.logit_bias[0].first = 18; },
      [](BatchPlan& p) { p.starts[0].sampling.logit_bias[0].second = 2; },
      [](BatchPlan& p) { p.starts[0].sampling.end_ids[1] = 4; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    BatchPlan plan = FullPlan();
    changes[i](plan);
    EXPECT_NE(plan, FullPlan()) << "change " << i;
    Result<BatchPlan> back = Deserialize(Serialize(plan));
    ASSERT_TRUE(back.ok()) << "change " << i << ": " << back.status().message();
    EXPECT_EQ(*back, plan) << "change " << i;
  }
}

TEST(PlanSerialization, EveryTruncationIsRefused) {
  const std::vector<std::byte> bytes = Serialize(FullPlan());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(Deserialize(std::span(bytes).first(size)).ok()) << size;
  }
}

TEST(PlanSerialization, TrailingBytesAreRefused) {
  std::vector<std::byte> bytes = Serialize(FullPlan());
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(Deserialize(bytes).ok());
}

TEST(PlanSerialization, AHugeCountIsRefusedWithoutAllocating) {
  std::vector<std::byte> bytes = Serialize(BatchPlan{});
  const uint64_t count = ~0ull / 2;
  std::memcpy(bytes.data() + 16, &count, sizeof count);  // behind magic, version and step: entries
  EXPECT_EQ(Deserialize(bytes).status().code(), StatusCode::kInvalidArgument);
}

// Whatever the bytes, Deserialize returns; what it accepts, it writes again byte for byte.
TEST(PlanSerialization, GarbageNeverCrashes) {
  std::mt19937_64 random(1);
  const std::vector<std::byte> sound = Serialize(FullPlan());
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes = sound;
    if (round % 4 == 0) {
      bytes.resize(random() % 300);
      for (size_t i = 8; i < bytes.size(); ++i) bytes[i] = std::byte(random());
    } else {
      for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips) {
        bytes[random() % bytes.size()] = std::byte(random());
      }
    }
    Result<BatchPlan> plan = Deserialize(bytes);
    if (!plan.ok()) continue;
    ++accepted;
    EXPECT_EQ(Serialize(*plan), bytes);
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace sluice::batch
