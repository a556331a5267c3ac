#include "ops/call_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "device/resolver.h"
#include "ops/all_ops.h"
#include "ops/attention.h"
#include "ops/grouped_linear.h"
#include "ops/host_array.h"
#include "ops/index_scores.h"
#include "ops/latent_attention.h"
#include "ops/linear.h"
#include "ops/norm.h"

namespace sluice::ops {
namespace {

TEST(AllOps, AreThoseOfTheCpu) {
  const auto resolved = device::ResolveDevice("cpu", device::LinkedBackends());
  ASSERT_TRUE(resolved.ok()) << resolved.status().message();
  const auto device = std::move(resolved->Open({.threads = 1}).value());
  std::vector<std::string> listed;
  AllOps::ForEach([&listed]<class Op>() { listed.emplace_back(Op::kName); });
  EXPECT_THAT(listed, ::testing::UnorderedElementsAreArray(device->ops().Ops()));
}

TEST(CallWork, ProductReadsTheWeightAndTheRows) {
  Array x(DType::kF32, {3, 64}), out(DType::kF32, {3, 32}), w(DType::kBF16, {32, 64});
  PackedWeight weight;
  weight.data = w.tensor();
  weight.dtype = DType::kBF16;
  weight.n = 32, weight.k = 64;
  const Linear::Desc desc{.weight = DType::kBF16, .n = 32, .k = 64};
  const Linear::Args args{.x = x.tensor(), .weight = &weight, .out = out.tensor()};
  const CallWork work = WorkOf(CallOf<Linear>("some_linear", desc, args), {});
  EXPECT_TRUE(work.known);
  EXPECT_EQ(work.flops, 2 * 3 * 32 * 64);
  EXPECT_EQ(work.bytes, 32 * 64 * 2 + 3 * 64 * 4 + 3 * 32 * 4);
  EXPECT_NE(work.shape.find("32x64"), std::string::npos) << work.shape;
  EXPECT_NE(work.shape.find(", 3"), std::string::npos) << work.shape;
}

TEST(CallWork, ExpertsAreReadAsFarAsTheyAreTaken) {
  Array x(DType::kF32, {1, 64}), w(DType::kBF16, {8 * 32, 64});
  PackedWeight weight;
  weight.data = w.tensor();
  GroupedLinear::Desc desc;
  desc.each = {.weight = DType::kBF16, .n = 32, .k = 64};
  desc.experts = 8;
  const auto bytes_of = [&](int64_t places) {
    Array out(DType::kF32, {places, 32});
    GroupedLinear::Args args;
    args.x = x.tensor();
    args.weight = &weight;
    args.out = out.tensor();
    const CallWork work = WorkOf(CallOf<GroupedLinear>("some", desc, args), {});
    EXPECT_EQ(work.flops, 2.0 * static_cast<double>(places) * 32 * 64);
    return work.bytes - static_cast<double>(64 * 4 + places * 32 * 4);
  };
  constexpr double kExpert = 32 * 64 * 2;
  EXPECT_NEAR(bytes_of(1), kExpert, 1e-6);
  EXPECT_NEAR(bytes_of(2), (2 - 1.0 / 8) * kExpert, 1e-6);
  EXPECT_NEAR(bytes_of(1000), 8 * kExpert, 1);
}

TEST(CallWork, AttentionReadsWhatItsRowsSee) {
  Attention::Desc desc;
  desc.q_heads = 4, desc.kv_heads = 2, desc.head_dim = 16;
  desc.kv = {DType::kF16, 2, 16, 16, 8};
  Array rows(DType::kF32, {4, 64});
  Attention::Args args;
  args.q = args.out = rows.tensor();
  const auto work_of = [&](const StepSizes& step) {
    return WorkOf(CallOf<Attention>("some_attention", desc, args), step);
  };
  constexpr double kPosition = 2 * 2 * 16 * 2, kRows = 2 * 4 * 64 * 4, kPair = 2 * 4 * 2 * 16;
  // One token behind 9, a chunk of three behind nothing, and padding.
  const StepSizes step = {{1, 3, 0}, {10, 3, 0}};
  EXPECT_EQ(work_of(step).bytes, kRows + 13 * kPosition);
  EXPECT_EQ(work_of(step).flops, (10 + 1 + 2 + 3) * kPair);
  desc.window = 2;
  EXPECT_EQ(work_of(step).bytes, kRows + (2 + 3) * kPosition);
  EXPECT_EQ(work_of(step).flops, (2 + 1 + 2 + 2) * kPair);
  desc.kv.dtype = DType::kI8;
  EXPECT_EQ(work_of(step).bytes, kRows + (2 + 3) * 2 * 2 * (16 + 4));
}

TEST(CallWork, ListsBoundWhatRowsOfLatentAttentionSee) {
  LatentAttention::Desc desc = {.heads = 4, .key_width = 24, .value_width = 16, .listed_max = 5};
  desc.kv = {DType::kF16, 1, 24, 0, 8};
  Array q(DType::kF32, {4, 96}), out(DType::kF32, {4, 64}), lists(DType::kI32, {4, 5});
  LatentAttention::Args args;
  args.q = q.tensor(), args.out = out.tensor(), args.listed = lists.tensor();
  const CallWork work =
      WorkOf(CallOf<LatentAttention>("some", desc, args), {{1, 3, 0}, {10, 3, 0}});
  EXPECT_EQ(work.flops, (5 + 1 + 2 + 3) * 2 * 4 * (24 + 16));
  EXPECT_EQ(work.bytes, 4 * (96 + 64 + 5) * 4 + (5 + 3) * 24 * 2);
}

TEST(CallWork, ScoresAreOfTheRowsOfTheCallAlone) {
  IndexScores::Desc desc = {.heads = 2, .head_dim = 16};
  desc.kv = {DType::kI8, 1, 16, 0, 8};
  Array q(DType::kF32, {2, 32}), weights(DType::kF32, {2, 2}), lengths(DType::kI32, {2});
  IndexScores::Args args;
  args.q = q.tensor(), args.weights = weights.tensor(), args.lengths = lengths.tensor();
  args.first_row = 2;
  // Rows 2 and 3: the second and the third of a chunk behind 4 positions.
  const CallWork work = WorkOf(CallOf<IndexScores>("some", desc, args), {{1, 4}, {10, 8}});
  EXPECT_EQ(work.flops, (6 + 7) * 2 * 2 * 17);
  EXPECT_EQ(work.bytes, 2 * (32 + 2 + 1) * 4 + 7 * (16 + 4) + (6 + 7) * 4);
}

TEST(CallWork, WhatIsChangedInPlaceIsReadAndWritten) {
  Array x(DType::kF32, {2, 8}), weight(DType::kF32, {8});
  Norm::Desc desc;
  desc.hidden = 8;
  Norm::Args args;
  args.x = args.residual = args.out = x.tensor();
  args.weight = weight.tensor();
  const double plain = WorkOf(CallOf<Norm>("some_norm", desc, args), {}).bytes;
  desc.add = true;
  EXPECT_EQ(WorkOf(CallOf<Norm>("some_norm", desc, args), {}).bytes, plain + 2 * 8 * 4);
}

}  // namespace
}  // namespace sluice::ops
