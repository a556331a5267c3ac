// A row's bits depend on that row alone: not on the rows beside it, nor on how many there are.
#include <gtest/gtest.h>

#include "backend/xpu/xpu_fixture.h"
#include "ops/attention.h"
#include "ops/formats/rows.h"
#include "ops/host_array.h"
#include "ops/linear.h"
#include "ops/norm.h"

namespace sluice::xpu {
namespace {

class XpuSamenessTest : public XpuTest {
 protected:
  template <class Op>
  void Run(const typename Op::Desc& desc, const typename Op::Args& args) {
    const auto bound = ops::Bind<Op>(device_->ops(), desc);
    ASSERT_TRUE(bound.ok()) << bound.status().message();
    const Status status = (*bound)(*stream_, args);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  std::vector<float> Noise(size_t count, uint64_t seed) {
    ops::TestNoise noise(seed);
    std::vector<float> values(count);
    for (float& value : values) value = noise.Value();
    return values;
  }
};

TEST_F(XpuSamenessTest, LinearGivesARowTheSameBitsInAnyBatch) {
  constexpr int64_t kRows = 9, kN = 40, kK = 512;
  const std::vector<float> x = Noise(kRows * kK, 1), w = Noise(kN * kK, 2);
  for (DType type : {DType::kF32, DType::kBF16, DType::kF8E4M3, DType::kQ4_1, DType::kQ8_0,
                     DType::kQ4_K, DType::kQ6_K}) {
    const ops::Linear::Desc desc = {.weight = type, .n = kN, .k = kK};
    const auto bound = ops::Bind<ops::Linear>(device_->ops(), desc);
    ASSERT_TRUE(bound.ok());
    const auto& packing = ops::PackingOf(device_->ops(), bound->name());
    std::vector<std::byte> rows(RowBytes(type, kN * kK)), packed(packing.packed_bytes(desc));
    ops::QuantizeRow(type, w, rows.data());
    ASSERT_TRUE(packing.pack(desc, 0, rows, packed).ok());
    const auto data = Upload(packed), in = Upload(x);
    const auto out = device_->Allocate(kRows * kN * sizeof(float), device::MemoryKind::kDevice);
    const ops::PackedWeight weight = {
        ops::Dense(data.view(), DType::kU8, {static_cast<int64_t>(packed.size())}), type,
        packing.layout, kN, kK};
    const ops::Tensor xs = ops::Dense(in.view(), DType::kF32, {kRows, kK});
    const ops::Tensor outs = ops::Dense(out->view(), DType::kF32, {kRows, kN});
    Run<ops::Linear>(desc, {.x = xs, .weight = &weight, .out = outs});
    const auto all = Download<float>(*out);
    for (int64_t count : {1, 2, 5}) {
      for (int64_t first = 0; first + count <= kRows; ++first) {
        Run<ops::Linear>(
            desc, {.x = xs.Rows(first, count), .weight = &weight, .out = outs.Rows(first, count)});
      }
      EXPECT_EQ(Download<float>(*out), all) << Name(type) << " " << count;
    }
  }
}

TEST_F(XpuSamenessTest, AttentionGivesARowTheSameBitsAloneAndInAChunk) {
  constexpr int kHeads = 6, kKvHeads = 2, kDim = 32, kBlock = 16, kBlocks = 8, kTokens = 100;
  constexpr int64_t kWidth = kHeads * kDim;
  const ops::KvDesc kv = {DType::kF32, kKvHeads, kDim, kDim, kBlock};
  const auto q = Upload(Noise(kTokens * kWidth, 3));
  const auto k = Upload(Noise(kBlocks * kKvHeads * kBlock * kDim, 4));
  const auto v = Upload(Noise(kBlocks * kKvHeads * kBlock * kDim, 5));
  const auto table = Upload(std::vector<int32_t>{3, 1, 7, 0, 2, 6, 5, 4});
  const auto out = device_->Allocate(kTokens * kWidth * sizeof(float), device::MemoryKind::kDevice);
  const auto run = [&](int first, int count) {
    const auto start = Upload(std::vector<int32_t>{0, count});
    const auto context = Upload(std::vector<int32_t>{first + count});
    ops::Attention::Args args;
    args.q = ops::Dense(q.view(), DType::kF32, {kTokens, kWidth}).Rows(first, count);
    args.out = ops::Dense(out->view(), DType::kF32, {kTokens, kWidth}).Rows(first, count);
    args.query_start = ops::Dense(start.view(), DType::kI32, {2});
    args.context = ops::Dense(context.view(), DType::kI32, {1});
    args.block_table = ops::Dense(table.view(), DType::kI32, {1, kBlocks});
    args.kv.k = ops::Dense(k.view(), DType::kF32, {kBlocks, kKvHeads, kBlock, kDim});
    args.kv.v = ops::Dense(v.view(), DType::kF32, {kBlocks, kKvHeads, kBlock, kDim});
    Run<ops::Attention>({.q_heads = kHeads, .kv_heads = kKvHeads, .head_dim = kDim, .kv = kv},
                        args);
  };
  run(0, kTokens);
  const auto all = Download<float>(*out);
  for (int t = 0; t < kTokens; ++t) run(t, 1);
  EXPECT_EQ(Download<float>(*out), all);
  for (int t = 0; t < kTokens; t += 20) run(t, 20);
  EXPECT_EQ(Download<float>(*out), all);
}

}  // namespace
}  // namespace sluice::xpu
