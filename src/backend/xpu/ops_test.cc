// What the host can't check before a kernel reads it: numbers of rows, slots and positions outside
// their tables.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/xpu/xpu_fixture.h"
#include "ops/embedding.h"
#include "ops/rope_kv.h"

namespace sluice::xpu {
namespace {

using ops::Dense;

constexpr int kFar = 2000000000;
constexpr float kLeft = -77.0f;  // what was there before

class XpuOpsTest : public XpuTest {
 protected:
  template <class Op>
  void Run(const typename Op::Desc& desc, const typename Op::Args& args) {
    const auto bound = ops::Bind<Op>(device_->ops(), desc);
    ASSERT_TRUE(bound.ok()) << bound.status().message();
    const Status status = (*bound)(*stream_, args);
    ASSERT_TRUE(status.ok()) << status.message();
    const Status done = stream_->Synchronize();
    ASSERT_TRUE(done.ok()) << done.message();
  }
};

TEST_F(XpuOpsTest, AnIdOrASplicedRowOutsideGivesNotANumber) {
  const auto ids = Upload(std::vector<int>{1, 2, -1, kFar, kFar, 0});
  const auto splice = Upload(std::vector<int>{-1, -1, -1, -1, 0, kFar});
  const auto table = Upload(std::vector<float>{1, 2, 3, 4});
  const auto spliced = Upload(std::vector<float>{8, 9});
  const auto out = Upload(std::vector<float>(12, kLeft));
  ops::Embedding::Args args;
  args.ids = Dense(ids.view(), DType::kI32, {6});
  args.table = Dense(table.view(), DType::kF32, {2, 2});
  args.spliced = Dense(spliced.view(), DType::kF32, {1, 2});
  args.splice = Dense(splice.view(), DType::kI32, {6});
  args.out = Dense(out.view(), DType::kF32, {6, 2});
  Run<ops::Embedding>({.vocab = 2, .hidden = 2}, args);
  const std::vector<float> got = Download<float>(out);
  EXPECT_EQ((std::vector<float>{got[0], got[1], got[8], got[9]}), (std::vector<float>{3, 4, 8, 9}));
  for (const size_t i : {2, 3, 4, 5, 6, 7, 10, 11}) EXPECT_TRUE(std::isnan(got[i])) << i;
}

TEST_F(XpuOpsTest, AGatheredRowOutsideIsZeros) {
  const auto x = Upload(std::vector<float>{1, 2, 3, 4, 5, 6});
  const auto rows = Upload(std::vector<int>{1, 2, -1, kFar});
  const auto out = Upload(std::vector<float>(12, kLeft));
  ops::GatherRows::Args args;
  args.x = Dense(x.view(), DType::kF32, {2, 3});
  args.rows = Dense(rows.view(), DType::kI32, {4});
  args.out = Dense(out.view(), DType::kF32, {4, 3});
  Run<ops::GatherRows>({.width = 3}, args);
  EXPECT_EQ(Download<float>(out), (std::vector<float>{4, 5, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST_F(XpuOpsTest, ATokenOfARowThatIsNotThereStays) {
  const auto ids = Upload(std::vector<int>{5, -1, -2, -3, -kFar});
  const auto previous = Upload(std::vector<int>{70, 80});
  ops::ResolveTokens::Args args;
  args.ids = Dense(ids.view(), DType::kI32, {5});
  args.previous = Dense(previous.view(), DType::kI32, {2});
  Run<ops::ResolveTokens>({}, args);
  EXPECT_EQ(Download<int>(ids), (std::vector<int>{5, 70, 80, -3, -kFar}));
}

TEST_F(XpuOpsTest, ASlotOutsideIsNotWrittenAndAPositionOutsideReadsTheTable) {
  ops::RopeKv::Desc desc = {.q_heads = 1, .kv_heads = 1, .head_dim = 2, .rotary_dims = 2};
  desc.kv = {DType::kF32, 1, 2, 2, 2};
  std::vector<float> numbers(24);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  const auto qkv = Upload(numbers), table = Upload(std::vector<float>{1, 0});
  const auto positions = Upload(std::vector<int>{0, 0, kFar, -1});
  const auto slots = Upload(std::vector<int>{1, kFar, -1, -1});
  const auto q_out = Upload(std::vector<float>(8, kLeft));
  const auto k = Upload(std::vector<float>(4, kLeft)), v = Upload(std::vector<float>(4, kLeft));
  ops::RopeKv::Args args;
  args.qkv = Dense(qkv.view(), DType::kF32, {4, 6});
  args.positions = Dense(positions.view(), DType::kI32, {4});
  args.table = Dense(table.view(), DType::kF32, {1, 2});
  args.slots = Dense(slots.view(), DType::kI32, {4});
  args.q_out = Dense(q_out.view(), DType::kF32, {4, 2});
  args.kv.k = Dense(k.view(), DType::kF32, {1, 1, 2, 2});
  args.kv.v = Dense(v.view(), DType::kF32, {1, 1, 2, 2});
  Run<ops::RopeKv>(desc, args);
  EXPECT_EQ(Download<float>(q_out), (std::vector<float>{0, 1, 6, 7, 12, 13, 18, 19}));
  EXPECT_EQ(Download<float>(k), (std::vector<float>{kLeft, kLeft, 2, 3}));
  EXPECT_EQ(Download<float>(v), (std::vector<float>{kLeft, kLeft, 4, 5}));
}

}  // namespace
}  // namespace sluice::xpu
