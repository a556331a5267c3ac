#include "exec/input_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/allocation_fixture.h"
#include "device/resolver.h"

namespace sluice::exec {
namespace {

using batch::BatchPlan;
using batch::RowPurpose;

constexpr int kWindow = 6;

class InputBuilderTest : public ::testing::Test {
 protected:
  InputBuilderTest() {
    const auto resolved = device::ResolveDevice("cpu", device::LinkedBackends());
    device_ = std::move(resolved->Open({.threads = 1}).value());
    batch::KvGroup full;
    full.layers = {0};
    full.kv_heads = 1;
    full.k_head_dim = full.v_head_dim = 4;
    full.block_tokens = full.kernel_block_tokens = 4;
    full.num_blocks = 10;
    batch::KvGroup window = full;
    window.kind = batch::KvKind::kWindow;
    window.window = kWindow;
    window.layers = {1};
    window.block_tokens = 4;
    window.kernel_block_tokens = 2;
    window.num_blocks = 5;
    groups_ = {full, window};
    builder_ = std::make_unique<InputBuilder>(*device_, groups_, limits_);
  }

  // Two tokens of a sequence at position 9, whose early window blocks are gone, and three of one
  // that starts.
  static BatchPlan Good() {
    BatchPlan plan;
    plan.step = 4;
    plan.entries = {{.sequence = 7,
                     .slot = 2,
                     .told_whole = 4,
                     .first_position = 9,
                     .query_tokens = 2,
                     .token_begin = 0,
                     .logits_begin = 0,
                     .logits_count = 1},
                    {.sequence = 8,
                     .slot = 0,
                     .told_whole = 4,
                     .first_position = 0,
                     .query_tokens = 3,
                     .token_begin = 2,
                     .logits_begin = 1,
                     .logits_count = 2}};
    plan.tokens = {5, 6, 20, 21, 99};
    plan.logits_rows = {
        {1, -1, RowPurpose::kSample}, {2, 21, RowPurpose::kScore}, {4, -1, RowPurpose::kVerify}};
    plan.groups = {{{0, 3, 4}, {0, 0}, {3, 9, 5, 0}},
                   {{0, 6, 8}, {0, 0}, {-1, -1, 2, 3, 8, 9, 0, 1}}};
    batch::SlotStart start;
    start.slot = 0;
    start.prompt_tokens = 2;
    start.history = {20, 21, 99};
    plan.starts = {start};
    plan.copies = {{1, 4, 0}};
    return plan;
  }

  // One token with its row, as a bucket takes it.
  static BatchPlan Decode() {
    BatchPlan plan;
    plan.entries = {{.sequence = 7, .first_position = 5, .query_tokens = 1, .logits_count = 1}};
    plan.tokens = {50};
    plan.logits_rows = {{0}};
    plan.groups = {{{0, 2}, {0}, {3, 9}}, {{0, 3}, {0}, {1, 2, 3}}};
    return plan;
  }

  // One sequence with `queries` tokens, each with a row, as when drafts are verified.
  static BatchPlan Verify(int queries) {
    BatchPlan plan = Decode();
    plan.entries[0].query_tokens = plan.entries[0].logits_count = queries;
    plan.tokens.assign(queries, 50);
    plan.groups[1] = {{0, 4}, {0}, {1, 2, 3, 4}};
    plan.logits_rows.clear();
    for (int i = 0; i < queries; ++i) {
      plan.logits_rows.push_back({i, i + 1 < queries ? 50 : -1, RowPurpose::kVerify});
    }
    return plan;
  }

  Result<PreparedBatch> Build(BatchPlan plan) { return builder_->Build(&plan); }
  static StepInputs Given(const PreparedBatch& batch) {
    StepInputs given;
    EXPECT_EQ(CarveInputs(batch.host.view(), batch.shape, &given), batch.bytes);
    return given;
  }
  static std::vector<int32_t> Ints(const ops::Tensor& t) {
    return {t.ptr<int32_t>(), t.ptr<int32_t>() + t.size()};
  }

  const InputLimits limits_ = {
      .tokens = 16, .sequences = 3, .logits_rows = 4, .slots = 3, .positions = 24, .vocab = 100};
  std::unique_ptr<device::Device> device_;
  std::vector<batch::KvGroup> groups_;
  std::unique_ptr<InputBuilder> builder_;
};

TEST_F(InputBuilderTest, AGoodPlanBecomesTheStepsInputs) {
  auto batch = Build(Good());
  ASSERT_TRUE(batch.ok()) << batch.status().message();
  EXPECT_EQ(batch->plan, Good());
  EXPECT_EQ(batch->bucket, -1);
  const StepInputs in = Given(*batch);
  EXPECT_THAT(Ints(in.token_ids), ::testing::ElementsAre(5, 6, 20, 21, 99));
  EXPECT_THAT(Ints(in.query_start), ::testing::ElementsAre(0, 2, 5));
  EXPECT_THAT(Ints(in.first), ::testing::ElementsAre(9, 0));
  EXPECT_THAT(Ints(in.slots), ::testing::ElementsAre(2, 0));
  EXPECT_THAT(Ints(in.logits_rows), ::testing::ElementsAre(1, 2, 4));
  ASSERT_EQ(in.groups.size(), 2u);
  EXPECT_THAT(Ints(in.groups[0].told_start), ::testing::ElementsAre(0, 3, 4));
  EXPECT_THAT(Ints(in.groups[0].told_first), ::testing::ElementsAre(0, 0));
  EXPECT_THAT(Ints(in.groups[0].told), ::testing::ElementsAre(3, 9, 5, 0));
  EXPECT_THAT(Ints(in.groups[1].told), ::testing::ElementsAre(-1, -1, 2, 3, 8, 9, 0, 1));
  EXPECT_THAT(batch->shape.table_widths, ::testing::ElementsAre(3, 6));
}

TEST_F(InputBuilderTest, APlanThatGoesOnTellsWhatChanged) {
  ASSERT_TRUE(Build(Good()).ok());
  BatchPlan plan = Good();
  plan.step = 5;
  plan.starts.clear();
  plan.entries[0].first_position = 11;
  plan.entries[1].first_position = 3;
  // The first gets a block in each group; of the second one in the middle is replaced.
  plan.groups = {{{0, 1, 2}, {3, 1}, {7, 8}}, {{0, 1, 3}, {6, 1}, {4, 6, 7}}};
  const auto batch = Build(plan);
  ASSERT_TRUE(batch.ok()) << batch.status().message();
  const StepInputs in = Given(*batch);
  EXPECT_THAT(Ints(in.groups[1].told_first), ::testing::ElementsAre(6, 1));
  EXPECT_THAT(Ints(in.groups[1].told), ::testing::ElementsAre(4, 6, 7));
  EXPECT_THAT(batch->shape.table_widths, ::testing::ElementsAre(4, 7));
  // Nothing is new.
  plan.step = 6;
  plan.groups = {{{0, 0, 0}, {4, 2}, {}}, {{0, 0, 0}, {7, 3}, {}}};
  EXPECT_TRUE(Build(plan).ok());
}

TEST_F(InputBuilderTest, WhatTheDeviceDoesNotHoldCannotBeGoneOnFrom) {
  BatchPlan on = Good();
  on.step = 5;
  on.groups = {{{0, 0, 0}, {3, 1}, {}}, {{0, 0, 0}, {6, 2}, {}}};
  const auto message = [&](const BatchPlan& plan) { return Build(plan).status().message(); };
  EXPECT_THAT(message(on), ::testing::HasSubstr("slot 2 holds none; tell them whole"));
  ASSERT_TRUE(Build(Good()).ok());
  BatchPlan wrong = on;
  wrong.entries[1].told_whole = 3;
  EXPECT_THAT(message(wrong), ::testing::HasSubstr("slot 0 holds those of step 4"));
  wrong = on;
  wrong.groups[0].first[0] = 4;
  EXPECT_THAT(message(wrong), ::testing::HasSubstr("from number 4 on, but slot 2 holds 3"));
  const auto failed = Build(on);
  ASSERT_TRUE(failed.ok()) << failed.status().message();
  builder_->Forget(*failed);
  on.step = 6;
  EXPECT_THAT(message(on), ::testing::HasSubstr("holds none"));
  // Told whole again before it was known that an earlier step failed.
  ASSERT_TRUE(Build(Good()).ok());
  BatchPlan whole = Good();
  whole.step = 7;
  for (batch::PlanEntry& entry : whole.entries) entry.told_whole = 7;
  ASSERT_TRUE(Build(whole).ok());
  builder_->Forget(*failed);
  on.step = 8;
  for (batch::PlanEntry& entry : on.entries) entry.told_whole = 7;
  EXPECT_TRUE(Build(on).ok());
  builder_->ForgetAll();
  on.step = 9;
  EXPECT_THAT(message(on), ::testing::HasSubstr("holds none"));
}

// Its window has moved on, and who owns the blocks before it is not known.
TEST_F(InputBuilderTest, AStepDoesNotGoBackToBlocksThatWereLetGo) {
  ASSERT_TRUE(Build(Good()).ok());
  BatchPlan on = Good();
  on.step = 5;
  on.groups = {{{0, 0, 0}, {3, 1}, {}}, {{0, 0, 0}, {6, 2}, {}}};
  EXPECT_TRUE(Build(on).ok());
  on.step = 6;
  on.entries[0].first_position = 8;
  EXPECT_THAT(Build(on).status().message(),
              ::testing::HasSubstr("no block for position 2 in group 1"));
}

TEST_F(InputBuilderTest, AnEmptyPlanIsGood) {
  BatchPlan plan;
  plan.groups = {{{0}, {}, {}}, {{0}, {}, {}}};
  auto batch = Build(plan);
  ASSERT_TRUE(batch.ok()) << batch.status().message();
  EXPECT_EQ(batch->shape.tokens + batch->shape.sequences + batch->shape.rows, 0);
}

TEST_F(InputBuilderTest, ThePlanAtEveryLimitIsGood) {
  BatchPlan plan;
  plan.groups = {{{0}, {}, {}}, {{0}, {}, {}}};
  for (int e = 0; e < 3; ++e) {
    const int query = e == 0 ? 14 : 1;
    plan.entries.push_back({.sequence = static_cast<batch::SequenceId>(e + 1),
                            .slot = e,
                            .first_position = 24 - query,
                            .query_tokens = query,
                            .token_begin = static_cast<int32_t>(plan.tokens.size()),
                            .logits_begin = static_cast<int32_t>(plan.logits_rows.size()),
                            .logits_count = e == 0 ? 2 : 1});
    for (int i = 0; i < query; ++i) {
      if (i < plan.entries[e].logits_count) {
        plan.logits_rows.push_back({static_cast<int32_t>(plan.tokens.size())});
      }
      plan.tokens.push_back(99);
    }
    for (int g = 0; g < 2; ++g) {
      plan.groups[g].ids.insert(plan.groups[g].ids.end(), g == 0 ? 6 : 12, 9);
      plan.groups[g].begin.push_back(static_cast<int32_t>(plan.groups[g].ids.size()));
      plan.groups[g].first.push_back(0);
    }
  }
  const auto batch = Build(plan);
  EXPECT_TRUE(batch.ok()) << batch.status().message();
}

constexpr int32_t kHuge = std::numeric_limits<int32_t>::max();
constexpr int32_t kLeast = std::numeric_limits<int32_t>::min();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
using Spoil = std::function<void(BatchPlan&)>;

std::vector<Spoil> SpoiltEntries() {
  return {
      [](BatchPlan& p) { p.entries[0].query_tokens = 0; },
      [](BatchPlan& p) { p.entries[0].query_tokens = -1; },
      [](BatchPlan& p) { p.entries[1].query_tokens = 4; },
      [](BatchPlan& p) { p.entries[1].query_tokens = 2; },
      [](BatchPlan& p) { p.entries[1].query_tokens = kHuge; },
      [](BatchPlan& p) { p.entries[1].token_begin = 1; },
      [](BatchPlan& p) { p.entries[1].token_begin = kLeast; },
      [](BatchPlan& p) { p.entries[0].first_position = -1; },
      [](BatchPlan& p) { p.entries[0].first_position = kHuge; },
      [](BatchPlan& p) { p.entries[0].first_position = 23; },
      [](BatchPlan& p) { p.entries[0].slot = -1; },
      [](BatchPlan& p) { p.entries[0].slot = 3; },
      [](BatchPlan& p) { p.entries[0].slot = 0; },  // twice
      [](BatchPlan& p) { p.entries[0].logits_begin = -1; },
      [](BatchPlan& p) { p.entries[1].logits_begin = 2; },
      [](BatchPlan& p) { p.entries[1].logits_count = 3; },
      [](BatchPlan& p) { p.entries[1].logits_count = 1; },
      [](BatchPlan& p) { p.entries[1].logits_count = -1; },
      [](BatchPlan& p) { p.entries[1].logits_count = kHuge; },
      [](BatchPlan& p) { p.logits_rows[0].token = 2; },
      [](BatchPlan& p) { p.logits_rows[1].token = 1; },
      [](BatchPlan& p) { p.logits_rows[1].token = kLeast; },
      [](BatchPlan& p) { p.logits_rows[1].target = -1; },
      [](BatchPlan& p) { p.logits_rows[1].target = 100; },
      [](BatchPlan& p) { p.logits_rows[2].target = -2; },
      [](BatchPlan& p) { p.logits_rows[2].target = 100; },
      [](BatchPlan& p) { p.logits_rows[0].purpose = static_cast<RowPurpose>(3); },
      [](BatchPlan& p) { p.logits_rows.push_back({4}); },
      [](BatchPlan& p) { p.tokens[0] = 100; },
      [](BatchPlan& p) { p.tokens[0] = batch::kLastDrawn; },  // nothing was drawn
      [](BatchPlan& p) { p.tokens[1] = batch::KnownToken(1); },
      [](BatchPlan& p) { p.tokens[1] = kLeast; },
      [](BatchPlan& p) { p.entries[0].unsure = 1; },
      [](BatchPlan& p) { p.entries[0].unsure = kLeast; },
      [](BatchPlan& p) { p.tokens.push_back(1); },
  };
}

std::vector<Spoil> SpoiltTablesAndStarts() {
  return {
      [](BatchPlan& p) { p.groups.pop_back(); },
      [](BatchPlan& p) { p.groups.emplace_back(); },
      [](BatchPlan& p) { p.groups[0].begin.clear(); },
      [](BatchPlan& p) {
        p.groups[0].begin = {0, 4};
      },
      [](BatchPlan& p) { p.groups[0].begin[0] = -1; },
      [](BatchPlan& p) { p.groups[0].begin[1] = 2; },  // two blocks where three are needed
      [](BatchPlan& p) { p.groups[0].begin[1] = 4; },  // none left for the next
      [](BatchPlan& p) { p.groups[0].begin[1] = 6; },  // past the ids, and back
      [](BatchPlan& p) { p.groups[0].begin[1] = -3; },
      [](BatchPlan& p) { p.groups[0].begin[2] = 3; },
      [](BatchPlan& p) { p.groups[0].ids.push_back(1); },
      [](BatchPlan& p) { p.groups[0].first.pop_back(); },
      [](BatchPlan& p) { p.groups[0].first[0] = -1; },
      [](BatchPlan& p) { p.groups[0].first[1] = 1; },
      [](BatchPlan& p) { p.groups[1].first[0] = kHuge; },
      [](BatchPlan& p) { p.entries[0].told_whole = 3; },
      [](BatchPlan& p) { p.groups[0].ids[0] = 10; },
      [](BatchPlan& p) { p.groups[0].ids[0] = -2; },
      [](BatchPlan& p) { p.groups[0].ids[2] = -1; },  // where the step writes
      [](BatchPlan& p) { p.groups[0].ids[0] = -1; },  // where attention reads
      [](BatchPlan& p) { p.groups[1].ids[2] = -1; },  // position 4: the first in the window
      [](BatchPlan& p) { p.groups[1].ids[5] = 10; },
      [](BatchPlan& p) { p.copies[0].group = 2; },
      [](BatchPlan& p) { p.copies[0].group = -1; },
      [](BatchPlan& p) { p.copies[0].source = 5; },
      [](BatchPlan& p) { p.copies[0].destination = -1; },
      [](BatchPlan& p) { p.starts[0].slot = 3; },
      [](BatchPlan& p) { p.starts[0].slot = -1; },
      [](BatchPlan& p) { p.starts[0].prompt_tokens = 4; },
      [](BatchPlan& p) { p.starts[0].prompt_tokens = -1; },
      [](BatchPlan& p) { p.starts[0].sampling.temperature = kNan; },
      [](BatchPlan& p) { p.starts[0].sampling.temperature = -0.5f; },
      [](BatchPlan& p) { p.starts[0].sampling.top_p = kNan; },
      [](BatchPlan& p) { p.starts[0].sampling.min_p = kNan; },
      [](BatchPlan& p) { p.starts[0].sampling.repetition_penalty = 0.0f; },
      [](BatchPlan& p) { p.starts[0].sampling.repetition_penalty = kNan; },
      [](BatchPlan& p) { p.starts[0].sampling.presence_penalty = kNan; },
      [](BatchPlan& p) { p.starts[0].sampling.frequency_penalty = 3e38f; },
      [](BatchPlan& p) {
        p.starts[0].sampling.logit_bias = {{1, kNan}};
      },
  };
}

TEST_F(InputBuilderTest, EveryMalformedFieldIsAnErrorOfThePlan) {
  std::vector<Spoil> spoils = SpoiltEntries();
  for (const Spoil& spoil : SpoiltTablesAndStarts()) spoils.push_back(spoil);
  for (size_t i = 0; i < spoils.size(); ++i) {
    BatchPlan plan = Good();
    spoils[i](plan);
    EXPECT_EQ(Build(plan).status().code(), StatusCode::kInvalidArgument) << "case " << i;
  }
  EXPECT_TRUE(Build(Good()).ok());
}

// In slot 2.
class KnownTokens : public InputBuilderTest {
 protected:
  static BatchPlan InSlot2(BatchPlan plan, uint64_t step) {
    plan.step = plan.entries[0].told_whole = step;
    plan.entries[0].slot = 2;
    return plan;
  }
  // A token of the sequence, the one that was drawn last, at `position` or up to `unsure` before.
  static BatchPlan GoesOn(uint64_t step, int position, int unsure = 0) {
    BatchPlan plan = InSlot2(Verify(1), step);
    plan.entries[0].first_position = position;
    plan.entries[0].unsure = unsure;
    plan.tokens = {batch::kLastDrawn};
    plan.groups = {{{0, 3}, {0}, {3, 9, 8}}, {{0, 5}, {0}, {1, 2, 3, 4, 5}}};
    return plan;
  }
  std::string Refusal(const BatchPlan& plan) { return Build(plan).status().message(); }
};

TEST_F(KnownTokens, WhatWasDrawnLastIsFoundByItsSlot) {
  EXPECT_THAT(Refusal(GoesOn(1, 6)), ::testing::HasSubstr("none was drawn there for sequence 7"));
  ASSERT_TRUE(Build(InSlot2(Decode(), 1)).ok());
  EXPECT_THAT(Refusal(GoesOn(2, 7)),
              ::testing::HasSubstr("at position 7 to 7, but slot 2 drew last for position 6 to 6"));
  EXPECT_THAT(Refusal(GoesOn(2, 5)), ::testing::HasSubstr("position 5 to 5"));
  BatchPlan other = GoesOn(2, 6);
  other.entries[0].sequence = 9;
  EXPECT_THAT(Refusal(other), ::testing::HasSubstr("none was drawn there for sequence 9"));
  const auto batch = Build(GoesOn(2, 6));
  ASSERT_TRUE(batch.ok()) << batch.status().message();
  EXPECT_THAT(Ints(Given(*batch).first), ::testing::ElementsAre(6));
  EXPECT_THAT(Ints(Given(*batch).token_ids), ::testing::ElementsAre(-1 - 2 * batch::kKnownTokens));
}

TEST_F(KnownTokens, WhereDraftsEndIsUnsureUntilTheyAreSettled) {
  const auto verify = Build(InSlot2(Verify(3), 1));  // from position 5 on
  ASSERT_TRUE(verify.ok());
  EXPECT_THAT(Refusal(GoesOn(2, 8, 1)), ::testing::HasSubstr("for position 6 to 8"));
  const auto behind = Build(GoesOn(2, 8, 2));
  ASSERT_TRUE(behind.ok()) << behind.status().message();
  EXPECT_THAT(Ints(Given(*behind).first), ::testing::ElementsAre(8));
  EXPECT_THAT(Ints(Given(*behind).unsure), ::testing::ElementsAre(2));
  batch::StepResult result;
  result.entries = {{.sequence = 7, .token_count = 2}};
  builder_->Settle(*verify, result);
  EXPECT_THAT(Refusal(GoesOn(3, 9)), ::testing::HasSubstr("for position 8 to 8"));
  EXPECT_TRUE(Build(GoesOn(3, 8)).ok());
}

TEST_F(KnownTokens, WhatCameToNothingCannotBeGoneOnFrom) {
  const auto first = Build(InSlot2(Decode(), 1));
  builder_->Forget(*first);
  EXPECT_THAT(Refusal(GoesOn(2, 6)), ::testing::HasSubstr("none was drawn"));
  const auto again = Build(InSlot2(Decode(), 3));
  builder_->ForgetDrawn(*again, std::vector<int32_t>{0});
  EXPECT_THAT(Refusal(GoesOn(4, 6)), ::testing::HasSubstr("none was drawn"));
}

TEST_F(KnownTokens, GuessesStandBehindOneAnotherAndRowsNameThem) {
  ASSERT_TRUE(Build(InSlot2(Decode(), 1)).ok());
  BatchPlan plan = GoesOn(2, 6);
  plan.entries[0].query_tokens = plan.entries[0].logits_count = 3;
  plan.tokens = {batch::kLastDrawn, batch::KnownToken(1), batch::KnownToken(2)};
  plan.logits_rows = {{0, batch::KnownToken(1), RowPurpose::kVerify},
                      {1, batch::KnownToken(2), RowPurpose::kVerify},
                      {2, -1, RowPurpose::kVerify}};
  BatchPlan wrong = plan;
  wrong.tokens[2] = batch::KnownToken(1);
  EXPECT_THAT(Refusal(wrong), ::testing::HasSubstr("token 2 of entry 0 is number 1 of those"));
  wrong = plan;
  wrong.tokens[1] = 40;
  EXPECT_THAT(Refusal(wrong), ::testing::HasSubstr("token 2 of entry 0"));
  wrong = plan;
  wrong.logits_rows[0].target = batch::KnownToken(2);
  EXPECT_THAT(Refusal(wrong), ::testing::HasSubstr("target"));
  wrong = plan;
  wrong.logits_rows[2].target = batch::KnownToken(3);
  EXPECT_THAT(Refusal(wrong), ::testing::HasSubstr("target"));
  const auto batch = Build(plan);
  ASSERT_TRUE(batch.ok()) << batch.status().message();
  EXPECT_THAT(Ints(Given(*batch).token_ids), ::testing::ElementsAre(-19, -20, -21));
}

// Where a runner guesses.
class Guesses : public InputBuilderTest {
 protected:
  Guesses() {
    InputLimits limits = limits_;
    limits.guesses = 3;
    builder_ = std::make_unique<InputBuilder>(*device_, groups_, limits);
  }
  // A chunk of a prompt, and a token at position 5 behind which two are guessed.
  static BatchPlan Plan() {
    BatchPlan plan;
    plan.guesses = 2;
    plan.entries = {{.sequence = 3, .query_tokens = 2, .next_token = 42},
                    {.sequence = 7,
                     .slot = 1,
                     .first_position = 5,
                     .query_tokens = 1,
                     .token_begin = 2,
                     .logits_count = 1,
                     .guesses = 3}};
    plan.tokens = {40, 41, 50};
    plan.logits_rows = {{2}};
    plan.groups = {{{0, 1, 4}, {0, 0}, {1, 3, 9, 8}}, {{0, 1, 6}, {0, 0}, {0, 1, 2, 3, 4, 5}}};
    return plan;
  }
};

TEST_F(Guesses, WhoGuessesStandsOneBehindTheOther) {
  auto batch = Build(Plan());
  ASSERT_TRUE(batch.ok()) << batch.status().message();
  const StepInputs given = Given(*batch);
  EXPECT_EQ(Ints(given.next), (std::vector<int32_t>{42, -1}));
  EXPECT_EQ(Ints(given.drafting), (std::vector<int32_t>{1}));
  EXPECT_EQ(Ints(given.draft_start), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(Ints(given.draft_slots), (std::vector<int32_t>{1}));
  EXPECT_EQ(Ints(given.draft_ids), (std::vector<int32_t>{-1 - batch::kKnownTokens}));
  EXPECT_EQ(batch->shape.table_widths, (std::vector<int64_t>{3, 5}));
  builder_->Recycle(*std::move(batch));
  builder_->UseBuckets({{3, 6}}, 2);
  batch = Build(Plan());
  ASSERT_TRUE(batch.ok() && batch->bucket == 0) << batch.status().message();
  const StepInputs padded = Given(*batch);
  EXPECT_EQ(Ints(padded.next), (std::vector<int32_t>{42, -1, -1}));
  EXPECT_EQ(Ints(padded.drafting), (std::vector<int32_t>{1, -1, -1}));
  EXPECT_EQ(Ints(padded.draft_start), (std::vector<int32_t>{0, 1, 1, 1}));
  EXPECT_EQ(Ints(padded.draft_slots), (std::vector<int32_t>{1, -1, -1}));
  EXPECT_EQ(Ints(padded.draft_ids), (std::vector<int32_t>{-1 - batch::kKnownTokens, 0, 0}));
}

TEST_F(Guesses, WhatCannotBeGuessedIsAnErrorOfThePlan) {
  const Spoil spoils[] = {
      [](BatchPlan& p) { p.entries[1].guesses = -1; },
      [](BatchPlan& p) { p.entries[1].guesses = 1; },  // fewer than the step makes
      [](BatchPlan& p) { p.entries.erase(p.entries.begin() + 1), p.guesses = 4; },
      [](BatchPlan& p) { p.guesses = -2; },
      [](BatchPlan& p) { p.entries[1].guesses = 4; },  // one more than there are blocks for
      [](BatchPlan& p) { p.entries[1].first_position = 22; },
      [](BatchPlan& p) { p.entries[1].next_token = 7; },
      [](BatchPlan& p) { p.entries[0].guesses = 1; },  // draws nothing
      [](BatchPlan& p) { p.entries[0].next_token = 100; },
      [](BatchPlan& p) {
        p.logits_rows[0] = {2, 5, RowPurpose::kScore};
      },
  };
  for (const Spoil& spoil : spoils) {
    BatchPlan plan = Plan();
    spoil(plan);
    EXPECT_EQ(Build(plan).status().code(), StatusCode::kInvalidArgument) << &spoil - spoils;
  }
  EXPECT_TRUE(Build(Plan()).ok());
  InputBuilder without(*device_, groups_, limits_);
  BatchPlan plan = Plan();
  EXPECT_FALSE(without.Build(&plan).ok());
}

TEST_F(InputBuilderTest, RecycledBuffersHoldNothingOfThePlanBefore) {
  auto first = Build(Good());
  ASSERT_TRUE(first.ok());
  const std::byte* memory = first->host.data();
  builder_->Recycle(std::move(first).value());
  auto second = Build(Good());
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->host.data(), memory);
  auto third = Build(Good());  // nothing to recycle: its own memory
  EXPECT_NE(third->host.data(), memory);
  EXPECT_EQ(Ints(Given(*second).groups[1].told), Ints(Given(*third).groups[1].told));
  EXPECT_EQ(Ints(Given(*second).token_ids), Ints(Given(*third).token_ids));
}

TEST_F(InputBuilderTest, ABucketsPaddingHoldsNothingOfThePlanBefore) {
  builder_->UseBuckets({{3, 5}}, 1);
  auto first = Build(Good());
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->bucket, -1);
  builder_->Recycle(std::move(first).value());
  auto batch = Build(Decode());
  ASSERT_TRUE(batch.ok()) << batch.status().message();
  EXPECT_EQ(batch->bucket, 0);
  const StepInputs in = Given(*batch);
  EXPECT_THAT(Ints(in.token_ids), ::testing::ElementsAre(50, 0, 0, 0, 0));
  EXPECT_THAT(Ints(in.query_start), ::testing::ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(Ints(in.first), ::testing::ElementsAre(5, 0, 0));
  EXPECT_THAT(Ints(in.slots), ::testing::ElementsAre(0, -1, -1));
  EXPECT_THAT(Ints(in.logits_rows), ::testing::ElementsAre(0, 0, 0, 0, 0));
  EXPECT_THAT(Ints(in.groups[0].told_start), ::testing::ElementsAre(0, 2, 2, 2));
  EXPECT_THAT(Ints(in.groups[0].told_first), ::testing::ElementsAre(0, 0, 0));
  EXPECT_THAT(batch->shape.table_widths, ::testing::ElementsAre(6, 12));
}

// A bucket has room for 1,024 ids and four for each sequence.
TEST_F(InputBuilderTest, AStepThatTellsMoreThanABucketHoldsGoesToNone) {
  InputLimits limits = limits_;
  limits.positions = 8000;
  groups_.resize(1);
  groups_[0].num_blocks = 5000;
  const auto build = [&](int blocks) {
    InputBuilder builder(*device_, groups_, limits);
    builder.UseBuckets({{1, 1}}, 1);
    BatchPlan plan = Decode();
    plan.groups = {{{0, blocks}, {0}, std::vector<int32_t>(blocks, 7)}};
    return std::move(builder.Build(&plan).value());
  };
  EXPECT_EQ(build(1028).bucket, 0);
  EXPECT_FALSE(build(1028).overfull);
  EXPECT_EQ(build(1029).bucket, -1);
  EXPECT_TRUE(build(1029).overfull);
}

TEST_F(InputBuilderTest, WhatABucketCannotHoldGoesToNone) {
  builder_->UseBuckets({{3, 3}}, 1);
  EXPECT_EQ(Build(Decode())->bucket, 0);
  BatchPlan rows = Decode();
  for (const int count : {2, 3, 4}) {  // of one token
    rows.entries[0].logits_count = count;
    rows.logits_rows.push_back({0, 5, RowPurpose::kScore});
    EXPECT_EQ(Build(rows)->bucket, count <= 3 ? 0 : -1) << count;
  }
}

TEST_F(InputBuilderTest, StepsWithDraftsGoToTheSmallestBucketOfTheirSequencesThatHoldsThem) {
  const std::vector<BucketShape> shapes = {{1, 1}, {1, 2}, {1, 3}, {3, 3}, {3, 8}};
  builder_->UseBuckets(shapes, 3);
  for (const int queries : {1, 2, 3}) {
    auto batch = Build(Verify(queries));
    ASSERT_TRUE(batch.ok()) << batch.status().message();
    EXPECT_EQ(batch->bucket, queries - 1);
  }
  BatchPlan rows = Verify(3);
  rows.entries[0].logits_count = 4;
  rows.logits_rows.push_back({2, 5, RowPurpose::kScore});
  EXPECT_EQ(Build(rows)->bucket, -1) << "no other number of sequences is tried";
  builder_ = std::make_unique<InputBuilder>(*device_, groups_, limits_);
  builder_->UseBuckets(shapes, 2);
  EXPECT_EQ(Build(Verify(3))->bucket, -1) << "a chunk of a prompt";
}

TEST_F(InputBuilderTest, ChunksGoToTheSmallestBucketOfChunksThatHoldsThem) {
  const std::vector<BucketShape> shapes = {
      {1, 1}, {3, 3}, {1, 2, true}, {1, 8, true}, {3, 8, true}};
  builder_->UseBuckets(shapes, 1);
  EXPECT_EQ(Build(Decode())->bucket, 0);
  EXPECT_EQ(Build(Verify(2))->bucket, 4) << "two rows";
  for (const int queries : {2, 3}) {
    BatchPlan chunk = Verify(queries);
    chunk.entries[0].logits_count = 1;
    chunk.logits_rows = {{queries - 1}};
    const auto batch = Build(chunk);
    ASSERT_TRUE(batch.ok()) << batch.status().message();
    EXPECT_EQ(batch->bucket, queries == 2 ? 2 : 3);
    EXPECT_EQ(batch->shape.tokens, queries == 2 ? 2 : 8);
    EXPECT_EQ(batch->shape.rows, 1);
  }
  EXPECT_EQ(Build(Verify(3))->bucket, 4) << "three rows";
}

TEST_F(InputBuilderTest, TheFirstTokenOfTheWindowNeedsItsBlock) {
  BatchPlan plan = Good();
  plan.entries[0].first_position = 10;  // so the window begins with the second token of block 2
  EXPECT_TRUE(Build(plan).ok());
  plan.groups[1].ids[2] = -1;
  EXPECT_EQ(Build(plan).status().code(), StatusCode::kInvalidArgument);
}

// A step reads the state behind the token before its first and writes that behind its last, and
// crosses no border between blocks. It verifies one draft less than a block has states.
TEST_F(InputBuilderTest, AStateIsFoundByItsTableAndNoStepCrossesABorder) {
  const batch::KvGroup full = groups_[0];
  batch::KvGroup state = full;
  state.kind = batch::KvKind::kState;
  state.layers = {1};
  state.block_tokens = state.kernel_block_tokens = 8;
  state.num_blocks = 3;
  state.states = 3;
  const std::vector<batch::KvGroup> groups = {full, state};
  InputBuilder builder(
      *device_, groups,
      {.tokens = 16, .sequences = 3, .logits_rows = 4, .slots = 3, .positions = 24, .vocab = 100});
  const auto build = [&](int first, int query, std::vector<int32_t> states, int verified = 0) {
    BatchPlan plan;
    plan.entries = {
        {.sequence = 7, .first_position = first, .query_tokens = query, .logits_count = verified}};
    plan.tokens.assign(query, 50);
    for (int i = 0; i < verified; ++i) plan.logits_rows.push_back({i, 50, RowPurpose::kVerify});
    plan.groups = {{{0, 6}, {0}, {0, 1, 2, 3, 4, 5}},
                   {{0, static_cast<int32_t>(states.size())}, {0}, std::move(states)}};
    return builder.Build(&plan);
  };
  const auto batch = build(16, 5, {-1, 2, 1});
  ASSERT_TRUE(batch.ok()) << batch.status().message();
  EXPECT_THAT(Ints(Given(*batch).groups[1].told), ::testing::ElementsAre(-1, 2, 1));
  EXPECT_TRUE(build(17, 7, {-1, -1, 1}).ok());
  EXPECT_TRUE(build(0, 8, {0}).ok());
  for (const auto& refused :
       {build(16, 5, {-1, -1, 1}), build(17, 7, {-1, 1, -1}), build(15, 2, {-1, 2, 1}),
        build(0, 9, {0, 1}), build(16, 5, {-1, 2, 3})}) {
    EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(build(15, 2, {-1, 2, 1}).status().message(), ::testing::HasSubstr("over a border"));
  EXPECT_TRUE(build(16, 3, {-1, 2, 1}, 3).ok());
  EXPECT_THAT(build(16, 4, {-1, 2, 1}, 4).status().message(),
              ::testing::HasSubstr("keeps the states behind 3"));
}

TEST_F(InputBuilderTest, ARefusedPlanIsLeftAsItWas) {
  BatchPlan plan = Good();
  plan.tokens[2] = 100;
  const BatchPlan before = plan;
  EXPECT_FALSE(builder_->Build(&plan).ok());
  EXPECT_EQ(plan, before);
}

// A plan's buffers go into the batch and come back with a later one, so that in the end neither the
// plan nor the batch asks for memory, one step ahead or not.
TEST_F(InputBuilderTest, OnceBatchesComeBackBuildAllocatesNothing) {
  BatchPlan good = Good();
  good.starts.clear();
  for (const bool overlap : {false, true}) {
    BatchPlan plan;
    PreparedBatch running;
    for (int step = 0; step < 20; ++step) {
      const int64_t allocations = AllocationsOf([&] {
        plan = good;
        auto batch = builder_->Build(&plan);
        ASSERT_TRUE(batch.ok());
        if (!overlap) {
          builder_->Recycle(std::move(batch).value());
          return;
        }
        if (step > 0) builder_->Recycle(std::move(running));
        running = std::move(batch).value();
      });
      if (step >= 6) {
        EXPECT_EQ(allocations, 0) << "step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::exec
