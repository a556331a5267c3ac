#include "exec/input_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <thread>

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
    stream_ = std::move(device_->CreateStream().value());
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
    store_ = std::move(kvstore::KvStore::Make(*device_, {full, window}).value());
    builder_ = std::make_unique<InputBuilder>(*device_, *store_, limits_);
  }

  // Two tokens of a sequence at position 9, whose early window blocks are gone, and three of one
  // that starts.
  static BatchPlan Good() {
    BatchPlan plan;
    plan.step = 4;
    plan.entries = {{.sequence = 7,
                     .slot = 2,
                     .first_position = 9,
                     .query_tokens = 2,
                     .token_begin = 0,
                     .logits_begin = 0,
                     .logits_count = 1},
                    {.sequence = 8,
                     .slot = 0,
                     .first_position = 0,
                     .query_tokens = 3,
                     .token_begin = 2,
                     .logits_begin = 1,
                     .logits_count = 2}};
    plan.tokens = {5, batch::PreviousRow(0), 20, 21, 99};
    plan.logits_rows = {
        {1, -1, RowPurpose::kSample}, {2, 21, RowPurpose::kScore}, {4, -1, RowPurpose::kVerify}};
    plan.groups = {{{0, 3, 4}, {3, 9, 5, 0}}, {{0, 6, 8}, {-1, -1, 2, 3, 8, 9, 0, 1}}};
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
    plan.groups = {{{0, 2}, {3, 9}}, {{0, 3}, {1, 2, 3}}};
    return plan;
  }

  // One sequence with `queries` tokens, each with a row, as when drafts are verified.
  static BatchPlan Verify(int queries) {
    BatchPlan plan = Decode();
    plan.entries[0].query_tokens = plan.entries[0].logits_count = queries;
    plan.tokens.assign(queries, 50);
    plan.groups[1] = {{0, 4}, {1, 2, 3, 4}};
    plan.logits_rows.clear();
    for (int i = 0; i < queries; ++i) {
      plan.logits_rows.push_back({i, i + 1 < queries ? 50 : -1, RowPurpose::kVerify});
    }
    return plan;
  }

  Result<PreparedBatch> Build(BatchPlan plan) { return builder_->Build(&plan, *stream_); }
  static std::vector<int32_t> Ints(const ops::Tensor& t) {
    return {t.ptr<int32_t>(), t.ptr<int32_t>() + t.size()};
  }

  const InputLimits limits_ = {
      .tokens = 16, .sequences = 3, .logits_rows = 4, .slots = 3, .positions = 24, .vocab = 100};
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<kvstore::KvStore> store_;
  std::unique_ptr<InputBuilder> builder_;
};

TEST_F(InputBuilderTest, AGoodPlanBecomesTheModelsInputs) {
  auto batch = Build(Good());
  ASSERT_TRUE(batch.ok()) << batch.status().message();
  EXPECT_FALSE(batch->synced());
  EXPECT_TRUE(batch->Sync().ok());
  EXPECT_TRUE(batch->synced());
  EXPECT_EQ(batch->plan(), Good());
  const model::DeviceBatch& in = batch->inputs();
  EXPECT_THAT(Ints(in.token_ids), ::testing::ElementsAre(5, -1, 20, 21, 99));
  EXPECT_THAT(Ints(in.positions), ::testing::ElementsAre(9, 10, 0, 1, 2));
  EXPECT_THAT(Ints(in.query_start), ::testing::ElementsAre(0, 2, 5));
  EXPECT_THAT(Ints(in.context), ::testing::ElementsAre(11, 3));
  EXPECT_THAT(Ints(in.logits_rows), ::testing::ElementsAre(1, 2, 4));
  ASSERT_EQ(in.groups.size(), 2u);
  EXPECT_THAT(Ints(in.groups[0].slots), ::testing::ElementsAre(21, 22, 0, 1, 2));
  EXPECT_THAT(Ints(in.groups[0].block_table), ::testing::ElementsAre(3, 9, 5, 0, -1, -1));
  EXPECT_EQ(in.groups[0].block_table.dims[1], 3);
  EXPECT_THAT(Ints(in.groups[1].slots), ::testing::ElementsAre(17, 18, 0, 1, 2));
  EXPECT_THAT(Ints(in.groups[1].block_table),
              ::testing::ElementsAre(-1, -1, 2, 3, 8, 9, 0, 1, -1, -1, -1, -1));
}

TEST_F(InputBuilderTest, AnEmptyPlanIsGood) {
  BatchPlan plan;
  plan.groups = {{{0}, {}}, {{0}, {}}};
  auto batch = Build(plan);
  ASSERT_TRUE(batch.ok()) << batch.status().message();
  EXPECT_EQ(batch->inputs().tokens(), 0);
  EXPECT_EQ(batch->inputs().sequences(), 0);
  EXPECT_EQ(batch->inputs().rows(), 0);
}

TEST_F(InputBuilderTest, ThePlanAtEveryLimitIsGood) {
  BatchPlan plan;
  plan.groups = {{{0}, {}}, {{0}, {}}};
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

TEST_F(InputBuilderTest, AReferenceToTheStepBeforeOfAnySizeIsLeftToTheExecutor) {
  BatchPlan plan = Good();
  plan.tokens[1] = std::numeric_limits<int32_t>::min();
  EXPECT_TRUE(Build(plan).ok());
}

TEST_F(InputBuilderTest, RecycledBuffersHoldNothingOfThePlanBefore) {
  BatchPlan large = Good();
  auto first = Build(large);
  ASSERT_TRUE(first.ok() && first->Sync().ok());
  const std::byte* memory = first->inputs().token_ids.data;
  builder_->Recycle(std::move(first).value());
  auto second = Build(Good());
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->inputs().token_ids.data, memory);
  EXPECT_FALSE(second->synced());
  auto third = Build(Good());  // nothing to recycle: its own memory
  EXPECT_NE(third->inputs().token_ids.data, memory);
  EXPECT_EQ(Ints(second->inputs().groups[1].block_table),
            Ints(third->inputs().groups[1].block_table));
  EXPECT_EQ(Ints(second->inputs().token_ids), Ints(third->inputs().token_ids));
}

TEST_F(InputBuilderTest, ABucketsPaddingHoldsNothingOfThePlanBefore) {
  builder_->UseBuckets({{3, 3}}, 1, {model::DeviceBatch()}, 0);
  auto first = Build(Good());
  ASSERT_TRUE(first.ok() && first->Sync().ok());
  EXPECT_EQ(first->bucket(), -1);
  device::View memory{first->inputs().token_ids.data, 0, device::MemoryKind::kHost, {}};
  builder_->Recycle(std::move(first).value());
  auto batch = Build(Decode());
  ASSERT_TRUE(batch.ok()) << batch.status().message();
  EXPECT_EQ(batch->bucket(), 0);
  const InputShape shape = builder_->ShapeOf({3, 3});
  model::DeviceBatch in;
  memory.bytes = CarveInputs({}, shape, &in);
  CarveInputs(memory, shape, &in);
  EXPECT_THAT(Ints(in.token_ids), ::testing::ElementsAre(50, 0, 0));
  EXPECT_THAT(Ints(in.positions), ::testing::ElementsAre(5, 0, 0));
  EXPECT_THAT(Ints(in.query_start), ::testing::ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(Ints(in.context), ::testing::ElementsAre(6, 0, 0));
  EXPECT_THAT(Ints(in.logits_rows), ::testing::ElementsAre(0, 0, 0));
  EXPECT_THAT(Ints(in.groups[0].slots), ::testing::ElementsAre(37, -1, -1));
  EXPECT_THAT(Ints(in.groups[1].slots), ::testing::ElementsAre(7, -1, -1));
}

TEST_F(InputBuilderTest, WhatABucketCannotHoldGoesToNone) {
  builder_->UseBuckets({{3, 3}}, 1, {model::DeviceBatch()}, 0);
  EXPECT_EQ(Build(Decode())->bucket(), 0);
  BatchPlan rows = Decode();
  for (const int count : {2, 3, 4}) {  // of one token
    rows.entries[0].logits_count = count;
    rows.logits_rows.push_back({0, 5, RowPurpose::kScore});
    EXPECT_EQ(Build(rows)->bucket(), count <= 3 ? 0 : -1) << count;
  }
}

TEST_F(InputBuilderTest, StepsWithDraftsGoToTheSmallestBucketOfTheirSequencesThatHoldsThem) {
  const std::vector<BucketShape> shapes = {{1, 1}, {1, 2}, {1, 3}, {3, 3}, {3, 8}};
  builder_->UseBuckets(shapes, 3, std::vector<model::DeviceBatch>(shapes.size()), 0);
  for (const int queries : {1, 2, 3}) {
    auto batch = Build(Verify(queries));
    ASSERT_TRUE(batch.ok()) << batch.status().message();
    EXPECT_EQ(batch->bucket(), queries - 1);
  }
  BatchPlan rows = Verify(3);
  rows.entries[0].logits_count = 4;
  rows.logits_rows.push_back({2, 5, RowPurpose::kScore});
  EXPECT_EQ(Build(rows)->bucket(), -1) << "no other number of sequences is tried";
  builder_ = std::make_unique<InputBuilder>(*device_, *store_, limits_);
  builder_->UseBuckets(shapes, 2, std::vector<model::DeviceBatch>(shapes.size()), 0);
  EXPECT_EQ(Build(Verify(3))->bucket(), -1) << "a chunk of a prompt";
}

TEST_F(InputBuilderTest, ABucketsTokensBehindThoseOfDraftsAreWrittenNowhere) {
  builder_->UseBuckets({{1, 5}}, 3, {model::DeviceBatch()}, 0);
  auto first = Build(Good());
  ASSERT_TRUE(first.ok() && first->Sync().ok());
  device::View memory{first->inputs().token_ids.data, 0, device::MemoryKind::kHost, {}};
  builder_->Recycle(std::move(first).value());
  auto batch = Build(Verify(3));
  ASSERT_TRUE(batch.ok()) << batch.status().message();
  ASSERT_EQ(batch->bucket(), 0);
  const InputShape shape = builder_->ShapeOf({1, 5});
  model::DeviceBatch in;
  memory.bytes = CarveInputs({}, shape, &in);
  CarveInputs(memory, shape, &in);
  EXPECT_THAT(Ints(in.token_ids), ::testing::ElementsAre(50, 50, 50, 0, 0));
  EXPECT_THAT(Ints(in.positions), ::testing::ElementsAre(5, 6, 7, 0, 0));
  EXPECT_THAT(Ints(in.query_start), ::testing::ElementsAre(0, 3));
  EXPECT_THAT(Ints(in.context), ::testing::ElementsAre(8));
  EXPECT_THAT(Ints(in.logits_rows), ::testing::ElementsAre(0, 1, 2, 0, 0));
  const std::vector<int32_t> slots = Ints(in.groups[0].slots);
  EXPECT_THAT(std::vector<int32_t>(slots.begin() + 3, slots.end()), ::testing::ElementsAre(-1, -1));
  EXPECT_GE(*std::min_element(slots.begin(), slots.begin() + 3), 0);
}

TEST_F(InputBuilderTest, TheFirstTokenOfTheWindowNeedsItsBlock) {
  BatchPlan plan = Good();
  plan.entries[0].first_position = 10;  // so the window begins with the second token of block 2
  EXPECT_TRUE(Build(plan).ok());
  plan.groups[1].ids[2] = -1;
  EXPECT_EQ(Build(plan).status().code(), StatusCode::kInvalidArgument);
}

// A step reads the state behind the token before its first and writes that behind its last, and
// crosses no border between blocks.
TEST_F(InputBuilderTest, AStateIsFoundByItsTableAndNoStepCrossesABorder) {
  batch::KvGroup full = store_->groups()[0];
  batch::KvGroup state = full;
  state.kind = batch::KvKind::kState;
  state.layers = {1};
  state.block_tokens = state.kernel_block_tokens = 8;
  state.num_blocks = 3;
  const auto store = std::move(kvstore::KvStore::Make(*device_, {full, state}).value());
  InputBuilder builder(
      *device_, *store,
      {.tokens = 16, .sequences = 3, .logits_rows = 4, .slots = 3, .positions = 24, .vocab = 100});
  const auto build = [&](int first, int query, std::vector<int32_t> states) {
    BatchPlan plan;
    plan.entries = {{.sequence = 7, .first_position = first, .query_tokens = query}};
    plan.tokens.assign(query, 50);
    plan.groups = {{{0, 6}, {0, 1, 2, 3, 4, 5}},
                   {{0, static_cast<int32_t>(states.size())}, std::move(states)}};
    return builder.Build(&plan, *stream_);
  };
  const auto batch = build(16, 5, {-1, 2, 1});
  ASSERT_TRUE(batch.ok()) << batch.status().message();
  EXPECT_THAT(Ints(batch->inputs().groups[1].block_table), ::testing::ElementsAre(-1, 2, 1));
  EXPECT_THAT(Ints(batch->inputs().groups[1].slots), ::testing::Each(-1));
  EXPECT_THAT(Ints(batch->inputs().groups[0].slots), ::testing::ElementsAre(16, 17, 18, 19, 20));
  EXPECT_TRUE(build(17, 7, {-1, -1, 1}).ok());
  EXPECT_TRUE(build(0, 8, {0}).ok());
  for (const auto& refused :
       {build(16, 5, {-1, -1, 1}), build(17, 7, {-1, 1, -1}), build(15, 2, {-1, 2, 1}),
        build(0, 9, {0, 1}), build(16, 5, {-1, 2, 3})}) {
    EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(build(15, 2, {-1, 2, 1}).status().message(), ::testing::HasSubstr("over a border"));
}

TEST_F(InputBuilderTest, ARefusedPlanIsLeftAsItWas) {
  BatchPlan plan = Good();
  plan.tokens[2] = 100;
  const BatchPlan before = plan;
  EXPECT_FALSE(builder_->Build(&plan, *stream_).ok());
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
        auto batch = builder_->Build(&plan, *stream_);
        ASSERT_TRUE(batch.ok() && batch->Sync().ok());
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

// Execute recycles on its thread while Prepare builds on another; a data race shows under the
// thread sanitizer.
TEST_F(InputBuilderTest, RecycleMayRunBesideBuild) {
  for (int round = 0; round < 50; ++round) {
    auto batch = Build(Good());
    ASSERT_TRUE(batch.ok());
    std::thread recycler([&] { builder_->Recycle(std::move(batch).value()); });
    auto other = Build(Good());
    recycler.join();
    ASSERT_TRUE(other.ok());
    EXPECT_THAT(Ints(other->inputs().context), ::testing::ElementsAre(11, 3));
  }
}

}  // namespace
}  // namespace sluice::exec
