// What the host can't check before a kernel reads it: numbers of rows, slots and positions outside
// their tables. Where there is no GPU, these tests say so and pass.
#include "backend/cuda/cuda_test.h"
#include "ops/conformance_case.h"

namespace sluice::cuda {
namespace {

using ops::Array;

class CudaOpsTest : public CudaTest {
 protected:
  ops::Tensor Upload(const Array& array) { return memory_->Upload(array); }
  // `like` as it is on the device.
  Array Read(const ops::Tensor& tensor, const Array& like) {
    return memory_->Download(tensor, like);
  }
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

constexpr int32_t kFar = 2000000000;

TEST_F(CudaOpsTest, AnIdOrASplicedRowOutsideGivesZeros) {
  const Array table = Array::Floats(DType::kF32, {2, 2}, {1, 2, 3, 4});
  const Array spliced = Array::Floats(DType::kF32, {1, 2}, {8, 9});
  const Array out = ops::Untouched(DType::kF32, {6, 2});
  ops::Embedding::Args args;
  args.ids = Upload(Array::Ints({1, 2, -1, kFar, kFar, 0}));
  args.table = Upload(table);
  args.spliced = Upload(spliced);
  args.splice = Upload(Array::Ints({-1, -1, -1, -1, 0, kFar}));
  args.out = Upload(out);
  Run<ops::Embedding>({.vocab = 2, .hidden = 2}, args);
  EXPECT_EQ(Read(args.out, out),
            Array::Floats(DType::kF32, {6, 2}, {3, 4, 0, 0, 0, 0, 0, 0, 8, 9, 0, 0}));
}

TEST_F(CudaOpsTest, AGatheredRowOutsideIsZeros) {
  const Array out = ops::Untouched(DType::kF16, {4, 3});
  ops::GatherRows::Args args;
  args.x = Upload(Array::Floats(DType::kF16, {2, 3}, {1, 2, 3, 4, 5, 6}));
  args.rows = Upload(Array::Ints({1, 2, -1, kFar}));
  args.out = Upload(out);
  Run<ops::GatherRows>({.activation = DType::kF16, .width = 3}, args);
  EXPECT_EQ(Read(args.out, out),
            Array::Floats(DType::kF16, {4, 3}, {4, 5, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST_F(CudaOpsTest, ATokenOfARowThatIsNotThereStays) {
  const Array ids = Array::Ints({5, -1, -2, -3, -kFar});
  ops::ResolveTokens::Args args;
  args.ids = Upload(ids);
  args.previous = Upload(Array::Ints({70, 80}));
  Run<ops::ResolveTokens>({}, args);
  EXPECT_EQ(Read(args.ids, ids), Array::Ints({5, 70, 80, -3, -kFar}));
}

TEST_F(CudaOpsTest, ASlotOrAPositionOutsideIsNotTouched) {
  ops::RopeKv::Desc desc = {.q_heads = 1, .kv_heads = 1, .head_dim = 2, .rotary_dims = 2};
  desc.kv = {DType::kF32, 1, 2, 2, 2};
  const Array cache = ops::Untouched(DType::kF32, {1, 1, 2, 2});
  const Array q_out = ops::Untouched(DType::kF32, {4, 2});
  Array qkv(DType::kF32, {4, 6});
  for (size_t i = 0; i < 24; ++i) qkv.Set(i, static_cast<float>(i));
  ops::RopeKv::Args args;
  args.qkv = Upload(qkv);
  args.positions = Upload(Array::Ints({0, 0, kFar, -1}));
  args.table = Upload(Array::Floats(DType::kF32, {1, 2}, {1, 0}));
  args.slots = Upload(Array::Ints({1, kFar, 0, 0}));
  args.q_out = Upload(q_out);
  args.kv.k = Upload(cache);
  args.kv.v = Upload(cache);
  Run<ops::RopeKv>(desc, args);
  const float far = ops::kUntouched;
  EXPECT_EQ(Read(args.q_out, q_out),
            Array::Floats(DType::kF32, {4, 2}, {0, 1, 6, 7, far, far, far, far}));
  EXPECT_EQ(Read(args.kv.k, cache), Array::Floats(DType::kF32, {1, 1, 2, 2}, {far, far, 2, 3}));
  EXPECT_EQ(Read(args.kv.v, cache), Array::Floats(DType::kF32, {1, 1, 2, 2}, {far, far, 4, 5}));
}

// Rows that do not fit the registers of a thread block; conformance's cases all do.
TEST_F(CudaOpsTest, LongRowsAreNormalizedAsTheReferenceDoes) {
  ops::TestNoise noise(5);
  for (int64_t hidden : {8192, 8193, 20000}) {
    for (ops::NormKind kind : {ops::NormKind::kRms, ops::NormKind::kLayer}) {
      const ops::Norm::Desc desc = {
          .kind = kind, .hidden = hidden, .add = true, .bias = kind == ops::NormKind::kLayer};
      const Array x = ops::Filled(noise, DType::kF32, {3, hidden}, 4.0f);
      const Array weight = ops::Filled(noise, DType::kF32, {hidden});
      const Array bias = ops::Filled(noise, DType::kF32, {hidden});
      const Array residual = ops::Filled(noise, DType::kF32, {3, hidden});
      const Array out = ops::Untouched(DType::kF32, {3, hidden});
      ops::Norm::Args args{.x = Upload(x), .residual = Upload(residual), .weight = Upload(weight)};
      if (desc.bias) args.bias = Upload(bias);
      args.out = Upload(out);
      Run<ops::Norm>(desc, args);
      const Array sums = residual, expected = out;  // the reference writes into them
      ops::Norm::Args host{.x = x.tensor(), .residual = sums.tensor(), .weight = weight.tensor()};
      if (desc.bias) host.bias = bias.tensor();
      host.out = expected.tensor();
      ASSERT_TRUE(ops::RefNorm(*stream_, desc, host).ok());
      const auto same = ops::Compare(Read(args.residual, residual), sums, 0.0);
      EXPECT_TRUE(same.ok) << hidden << ": " << same.what;
      const auto near = ops::Compare(Read(args.out, out), expected, 1e-4);
      EXPECT_TRUE(near.ok) << hidden << ": " << near.what;
    }
  }
}

// The same row in every place of every batch, for each op that has sums.
TEST_F(CudaOpsTest, ARowsBitsDoNotDependOnTheRowsAroundIt) {
  constexpr int64_t kHidden = 576, kRows = 33;
  ops::TestNoise noise(3);
  const Array row = ops::Filled(noise, DType::kBF16, {1, kHidden});
  const ops::Tensor weight = Upload(ops::Filled(noise, DType::kF32, {kHidden}));
  const auto norm = [&](const Array& x) {
    ops::Norm::Args args{.x = Upload(x), .weight = weight};
    const Array out = ops::Untouched(DType::kBF16, {x.tensor().dims[0], kHidden});
    args.out = Upload(out);
    Run<ops::Norm>({.activation = DType::kBF16, .hidden = kHidden}, args);
    return Read(args.out, out);
  };
  const Array alone = norm(row);
  Array batch = ops::Filled(noise, DType::kBF16, {kRows, kHidden}, 100.0f);
  for (int64_t i = 0; i < kHidden; ++i)
    batch.Set(static_cast<size_t>(17 * kHidden + i), row.At(static_cast<size_t>(i)));
  const Array together = norm(batch);
  for (int64_t i = 0; i < kHidden; ++i) {
    ASSERT_EQ(together.At(static_cast<size_t>(17 * kHidden + i)), alone.At(static_cast<size_t>(i)));
  }
}

}  // namespace
}  // namespace sluice::cuda
