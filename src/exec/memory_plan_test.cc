#include "exec/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/parse_bytes.h"

namespace sluice::exec {
namespace {

constexpr size_t kTokenBytes = 2 * (8 + 8) * 2;  // heads * (K + V) * F16, of one layer

batch::KvGroup Group(std::vector<int> layers, int window = 0) {
  batch::KvGroup group;
  group.layers = std::move(layers);
  group.kind = window > 0 ? batch::KvKind::kWindow : batch::KvKind::kFull;
  group.window = window;
  group.block_tokens = 16;
  group.kernel_block_tokens = 8;
  group.dtype = DType::kF16;
  group.kv_heads = 2;
  group.k_head_dim = group.v_head_dim = 8;
  return group;
}

MemoryRequest Request() {
  MemoryRequest request;
  request.groups = {Group({0, 1})};
  request.max_num_seqs = 4;
  request.max_batch_tokens = 32;
  request.declared_model_len = 1000;
  request.free_bytes = size_t{1} << 30;
  return request;
}

// Of one sequence of Request() with `length` tokens.
size_t Bytes(int length) { return size_t{(length + 15u) / 16 * 16} * 2 * kTokenBytes; }

void ExpectOutOfMemory(const MemoryRequest& request, std::vector<std::string> names) {
  const Status status = PlanMemory(request).status();
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  for (const std::string& name : names) EXPECT_THAT(status.message(), ::testing::HasSubstr(name));
}

TEST(PlanMemory, WithRoomEverySequenceGetsTheWholeLength) {
  const auto plan = PlanMemory(Request());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->max_model_len, 1000);
  EXPECT_EQ(plan->note, "");
  ASSERT_EQ(plan->groups.size(), 1u);
  EXPECT_EQ(plan->groups[0].num_blocks, 4 * 63);
  EXPECT_EQ(plan->groups[0].block_tokens, 16);
  EXPECT_EQ(plan->groups[0].kernel_block_tokens, 8);
  EXPECT_THAT(plan->groups[0].layers, ::testing::ElementsAre(0, 1));
  EXPECT_EQ(plan->bytes, 4 * Bytes(1000));
}

TEST(PlanMemory, ThePlanSaysWhichShareOfTheFreeMemoryItTakes) {
  MemoryRequest request = Request();
  request.groups[0].dtype = DType::kBF16;
  request.weight_bytes = size_t{3} << 30;
  request.step_bytes = size_t{512} << 20;
  request.kv_bytes = size_t{256} << 20;
  request.max_num_seqs = 10000;
  const auto plan = PlanMemory(request);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->free_bytes, size_t{4} << 30);
  // 3 GiB, nearly 0.25 GiB (whole blocks of the cache) and 0.5 GiB of 4 GiB.
  EXPECT_NEAR(plan->Share(), 3.75 / 4, 1e-3);
  EXPECT_EQ(plan->ToString(),
            "weights 3 GiB, KV cache up to " + FormatBytes(plan->bytes) +
                " in BF16, buffers of a step 512 MiB: 94 % of the 4 GiB that were free");
}

// One beside each block of the group of full attention, wherever that stands.
TEST(PlanMemory, ADraftHasABlockForEachOfTheGroupThatItFollows) {
  MemoryRequest request = Request();
  request.groups = {Group({0}, 64), Group({1})};
  const auto without = PlanMemory(request);
  request.draft_groups = {Group({0, 1, 2}), Group({3}, 8)};
  const auto plan = PlanMemory(request);
  ASSERT_TRUE(plan.ok() && without.ok()) << plan.status().message();
  ASSERT_EQ(plan->draft_groups.size(), 2u);
  for (const batch::KvGroup& group : plan->draft_groups)
    EXPECT_EQ(group.num_blocks, plan->groups[1].num_blocks);
  EXPECT_EQ(plan->groups, without->groups);
  EXPECT_EQ(plan->bytes, without->bytes + 4 * 2 * Bytes(1000));
  request.kv_bytes = without->bytes / 4;  // of one sequence without a draft
  request.max_model_len = 1000;
  ExpectOutOfMemory(request, {"--max-model-len"});
  request.draft_groups[0].layers = {0, 1, 2, 4, 5};
  request.kv_bytes = 0;
  request.allocation_bytes_max = 5 * Bytes(1000) / 2;  // of one sequence in its larger pool
  EXPECT_EQ(PlanMemory(request)->groups[1].num_blocks, 63);
}

TEST(PlanMemory, ScalesAreCounted) {
  for (const DType dtype : {DType::kF8E4M3, DType::kI8}) {
    MemoryRequest request = Request();
    request.groups[0].dtype = dtype;
    const auto plan = PlanMemory(request);
    ASSERT_TRUE(plan.ok());
    // 8 codes and a scale where F16 has 8 numbers.
    EXPECT_EQ(plan->bytes, 4 * Bytes(1000) / 16 * 12);
  }
}

TEST(PlanMemory, TheDefaultTakesAQuarterOfWhatIsFreeAtMost) {
  MemoryRequest request = Request();
  request.free_bytes = 4 * 2 * Bytes(1000);
  const auto plan = PlanMemory(request);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->groups[0].num_blocks, 2 * 63);
  EXPECT_EQ(plan->max_model_len, 1000);
}

TEST(PlanMemory, TheDeclaredLengthIsCutToWhatFitsAndSaidSo) {
  MemoryRequest request = Request();
  request.kv_bytes = Bytes(320);
  const auto plan = PlanMemory(request);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->max_model_len, 320);
  EXPECT_EQ(plan->groups[0].num_blocks, 20);
  EXPECT_THAT(plan->note, ::testing::HasSubstr("320"));
  EXPECT_THAT(plan->note, ::testing::HasSubstr("1000"));
  EXPECT_THAT(plan->note, ::testing::HasSubstr("--kv-memory"));
  EXPECT_LE(plan->bytes, request.kv_bytes);
}

TEST(PlanMemory, AnExplicitLengthIsNeverCut) {
  MemoryRequest request = Request();
  request.max_model_len = 321;
  request.kv_bytes = Bytes(320);
  ExpectOutOfMemory(request, {"--max-model-len", "--kv-memory", "321"});
  request.max_model_len = 320;
  const auto plan = PlanMemory(request);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->max_model_len, 320);
  EXPECT_EQ(plan->note, "");
}

TEST(PlanMemory, NotEvenOneBlockIsOutOfMemory) {
  MemoryRequest request = Request();
  request.kv_bytes = Bytes(16) - 1;
  ExpectOutOfMemory(request, {"--max-model-len", "--kv-memory"});
  request.kv_bytes = 0;
  request.free_bytes = 0;
  ExpectOutOfMemory(request, {"--kv-memory"});
}

TEST(PlanMemory, MoreThanIsFreeIsRefused) {
  MemoryRequest request = Request();
  request.kv_bytes = request.free_bytes + 1;
  ExpectOutOfMemory(request, {"--kv-memory", "1 GiB"});
}

TEST(PlanMemory, APoolIsNoLargerThanTheDeviceGivesInOnePiece) {
  MemoryRequest request = Request();
  request.allocation_bytes_max = 2 * Bytes(1000) + 1;
  const auto plan = PlanMemory(request);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->max_model_len, 1000);
  EXPECT_EQ(plan->bytes, 2 * Bytes(1000));
  request.allocation_bytes_max = Bytes(1000) - 1;
  ExpectOutOfMemory(request, {"1000 tokens", "in one piece", "--max-model-len"});
}

TEST(PlanMemory, BlockSizesThatDoNotFitAreNamed) {
  for (const auto& [block, kernel] :
       std::vector<std::pair<int, int>>{{16, 12}, {8, 16}, {0, 8}, {16, 0}, {-16, 8}, {16, -8}}) {
    MemoryRequest request = Request();
    request.groups[0].block_tokens = block;
    request.groups[0].kernel_block_tokens = kernel;
    const Status status = PlanMemory(request).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << block << " " << kernel;
    EXPECT_THAT(status.field(), ::testing::HasSubstr("block-size"));
  }
}

TEST(PlanMemory, ALengthAboveTheDeclaredOneIsRefused) {
  MemoryRequest request = Request();
  request.max_model_len = 1001;
  EXPECT_EQ(PlanMemory(request).status().field(), "max-model-len");
}

TEST(PlanMemory, AWindowGroupHoldsItsWindowAndAStep) {
  MemoryRequest request = Request();
  request.groups = {Group({0}), Group({1}, 64)};
  const auto plan = PlanMemory(request);
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->groups.size(), 2u);
  EXPECT_EQ(plan->groups[0].num_blocks, 4 * 63);
  EXPECT_EQ(plan->groups[1].num_blocks, 4 * (6 + 2));  // 64 + 32 tokens, and both edges
  EXPECT_EQ(plan->bytes, (4 * 63 + 4 * 8) * 16 * kTokenBytes);
}

// Two blocks that a sequence holds while it passes from one to the next, and one that is still in a
// step; while it runs within a block the others are there for snapshots.
TEST(PlanMemory, AGroupOfStatesHoldsThreeForEachSequence) {
  MemoryRequest request = Request();
  batch::KvGroup state = Group({0, 2});
  state.kind = batch::KvKind::kState;
  state.block_tokens = state.kernel_block_tokens = 64;
  state.dtype = DType::kF32;
  state.kv_heads = 1;
  state.k_head_dim = 60;
  state.v_head_dim = 20;
  request.groups = {state, Group({1})};
  const auto plan = PlanMemory(request);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->groups[0].num_blocks, 4 * 3);
  EXPECT_EQ(plan->groups[1].num_blocks, 4 * 63);
  EXPECT_EQ(plan->bytes, 4 * 3 * (2 * 80 * 4) + 4 * 63 * 16 * kTokenBytes);
  // The KV cache is told in the format of K and V.
  EXPECT_THAT(plan->ToString(), ::testing::HasSubstr("in F16"));
  request.max_model_len = 64;  // never more than one state
  EXPECT_EQ(PlanMemory(request)->groups[0].num_blocks, 4);
  request.groups[0].block_tokens = request.groups[0].kernel_block_tokens = 40;
  EXPECT_EQ(PlanMemory(request).status().field(), "state-block");
}

// As many as leave room for the longest sequence, which comes first.
TEST(PlanMemory, ABlockHasAStateForEachDraftThatFits) {
  MemoryRequest request = Request();
  batch::KvGroup state = Group({0});
  state.kind = batch::KvKind::kState;
  state.block_tokens = state.kernel_block_tokens = 64;
  state.dtype = DType::kF32;
  state.kv_heads = 1;
  state.k_head_dim = 60;
  state.v_head_dim = 20;
  request.groups = {state, Group({1})};
  request.draft_tokens = 8;
  auto plan = PlanMemory(request);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->groups[0].states, 9);
  EXPECT_EQ(plan->groups[1].states, 1);
  EXPECT_EQ(plan->bytes, 4 * 3 * (9 * 80 * 4) + 4 * 63 * 16 * kTokenBytes);
  EXPECT_EQ(plan->note, "");
  request.kv_bytes = 3 * (4 * 80 * 4) + 63 * 16 * kTokenBytes;  // a sequence with four states
  plan = PlanMemory(request);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->max_model_len, 1000);
  EXPECT_EQ(plan->groups[0].states, 4);
  EXPECT_LE(plan->bytes, request.kv_bytes);
  EXPECT_THAT(plan->note, ::testing::HasSubstr("--speculate-tokens is 3, not 8"));
  request.kv_bytes = 3 * (80 * 4) + 63 * 16 * kTokenBytes;
  plan = PlanMemory(request);
  EXPECT_EQ(plan->groups[0].states, 1);
  EXPECT_THAT(plan->note, ::testing::HasSubstr("--speculate-tokens is 0, not 8"));
}

TEST(PlanMemory, AWindowLargerThanTheLengthIsTheLength) {
  MemoryRequest request = Request();
  request.groups = {Group({0, 1}, 4096)};
  EXPECT_EQ(PlanMemory(request)->groups[0].num_blocks, 4 * 63);
}

TEST(PlanMemory, WhateverTheBudgetOneSequenceFitsEveryGroupAndTheBudgetHolds) {
  for (size_t budget = Bytes(16); budget < 5 * Bytes(1000); budget += 7919) {
    MemoryRequest request = Request();
    request.groups = {Group({0}), Group({1}, 100)};
    request.kv_bytes = budget;
    const auto plan = PlanMemory(request);
    if (!plan.ok()) continue;
    EXPECT_LE(plan->bytes, budget);
    EXPECT_GE(plan->groups[0].num_blocks * 16, plan->max_model_len);
    EXPECT_GE(plan->groups[1].num_blocks * 16, std::min(plan->max_model_len, 100 + 32));
  }
}

// Of 1 GiB that is free, a step's buffers, kernels and graphs are needed too.
TEST(PlanMemory, AllThatIsFreeIsRefusedWithWhatElseNeedsIt) {
  MemoryRequest request = Request();
  request.step_bytes = size_t{32} << 20;
  request.scratch_bytes = size_t{64} << 20;
  request.graph_bytes = size_t{128} << 20;
  request.kv_bytes = request.free_bytes;
  ExpectOutOfMemory(request, {"--kv-memory asks for 1 GiB", "of the 1 GiB that are free",
                              "32 tokens and 4 sequences needs 224 MiB", "32 MiB for its inputs",
                              "64 MiB for kernels", "128 MiB for code and graphs",
                              "lower it to 800 MiB or less"});
  request.kv_bytes = size_t{800} << 20;
  EXPECT_TRUE(PlanMemory(request).ok());
  request.kv_bytes += 1;
  ExpectOutOfMemory(request, {"--kv-memory"});
  request.kv_bytes = 0;
  request.graph_bytes = request.free_bytes;
  ExpectOutOfMemory(request, {"a step of", "--max-batch-tokens"});
}

// What a step takes comes first; the rest is shared out.
TEST(PlanMemory, AStepsMemoryIsSetAsideBeforeTheCache) {
  MemoryRequest request = Request();
  request.free_bytes = 10 * Bytes(1000);
  request.step_bytes = 8 * Bytes(1000);
  request.share = 0.5;
  const auto plan = PlanMemory(request);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->bytes, Bytes(1000));
  request.kv_bytes = 2 * Bytes(1000);
  EXPECT_TRUE(PlanMemory(request).ok());
  request.kv_bytes = 2 * Bytes(1000) + 1;
  ExpectOutOfMemory(request, {"--kv-memory"});
  request.kv_bytes = 0;
  request.step_bytes = request.free_bytes + 1;
  ExpectOutOfMemory(request,
                    {"--max-batch-tokens", "--max-num-seqs", "--max-model-len", "32 tokens"});
}

// A step's buffers and tables grow with the length, here by `step` bytes a token.
auto Growing(const MemoryRequest& request, size_t step) {
  return [=](int max_model_len) -> Result<MemoryRequest> {
    MemoryRequest grown = request;
    const int length = max_model_len > 0 ? max_model_len : request.declared_model_len;
    grown.step_bytes = step * static_cast<size_t>(length);
    return grown;
  };
}

// The lengths that fit if they are asked for, the declared one excepted.
int LongestByTrying(const MemoryRequest& request, size_t step) {
  int longest = 0;
  for (int length = 1; length < request.declared_model_len; ++length) {
    MemoryRequest asked = Growing(request, step)(length).value();
    asked.max_model_len = length;
    if (PlanMemory(asked).ok()) longest = length;
  }
  return longest;
}

TEST(PlanLongest, WhereTheDeclaredLengthFitsItIsTaken) {
  const auto plan = PlanLongest(Growing(Request(), 8), true);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->max_model_len, 1000);
  EXPECT_EQ(plan->note, "");
}

// Neither the step's buffers nor the tables of the declared length fit, so that alone it is
// refused.
TEST(PlanLongest, AStepThatIsTooLargeMakesTheLengthShorter) {
  MemoryRequest request = Request();
  request.max_num_seqs = 1;
  request.share = 1;
  for (const size_t step : {200, 1000, 20000}) {
    request.free_bytes = 400 * step + Bytes(400);
    ASSERT_FALSE(PlanMemory(Growing(request, step)(0).value()).ok());
    EXPECT_EQ(PlanLongest(Growing(request, step), false).status().code(), StatusCode::kOutOfMemory);
    const auto plan = PlanLongest(Growing(request, step), true);
    ASSERT_TRUE(plan.ok()) << step << ": " << plan.status().message();
    EXPECT_EQ(plan->max_model_len, LongestByTrying(request, step)) << step;
    EXPECT_GE(plan->max_model_len, 400) << step;
    EXPECT_LE(plan->step_bytes + plan->bytes, request.free_bytes) << step;
    EXPECT_THAT(plan->note, ::testing::HasSubstr("the model declares 1000")) << step;
    EXPECT_THAT(plan->note, ::testing::HasSubstr("--max-batch-tokens")) << step;
  }
}

// Buffers of the declared length fit and leave the cache little; those of a shorter one leave more.
TEST(PlanLongest, ACacheThatIsCutGetsWhatAShorterLengthLeaves) {
  MemoryRequest request = Request();
  request.max_num_seqs = 1;
  request.share = 1;
  request.free_bytes = 1000 * 1000 + Bytes(100);
  const auto cut = PlanMemory(Growing(request, 1000)(0).value());
  ASSERT_TRUE(cut.ok()) << cut.status().message();
  const auto plan = PlanLongest(Growing(request, 1000), false);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_GT(plan->max_model_len, cut->max_model_len);
  EXPECT_EQ(plan->max_model_len, LongestByTrying(request, 1000));
}

TEST(PlanLongest, ALengthThatIsAskedForIsNeverCut) {
  MemoryRequest request = Request();
  request.max_model_len = 1000;
  request.free_bytes = 400 * 1000;
  EXPECT_EQ(PlanLongest(Growing(request, 1000), true).status().code(), StatusCode::kOutOfMemory);
}

TEST(PlanLongest, WhatFitsAtNoLengthIsRefusedAsItIs) {
  MemoryRequest request = Request();
  request.free_bytes = 15 * 1000;  // not a block of 16
  const Status status = PlanLongest(Growing(request, 1000), true).status();
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(status.message(), PlanMemory(Growing(request, 1000)(0).value()).status().message());
  request.max_num_seqs = 0;
  request.groups[0].block_tokens = 7;
  EXPECT_EQ(PlanLongest(Growing(request, 1), true).status().code(),
            PlanMemory(Growing(request, 1)(0).value()).status().code());
}

}  // namespace
}  // namespace sluice::exec
