// What the host can't check before a kernel reads it: numbers of rows, slots and positions outside
// their tables. Where there is no GPU, these tests say so and pass.
#include <gtest/gtest.h>

#include <numeric>

#include "device/backend.h"
#include "ops/conformance_case.h"

namespace sluice::cuda {

const device::Backend* BackendInstance();

namespace {

using ops::Array;

class CudaOpsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = BackendInstance()->Open({}, 0, {});
    if (!opened.ok()) GTEST_SKIP() << opened.status().message();
    device_ = std::move(opened).value();
    stream_ = std::move(device_->CreateStream()).value();
    target_.device = device_.get();
    target_.stream = stream_.get();
  }
  void TearDown() override {
    target_.buffers.clear();
    stream_.reset();
    device_.reset();
  }

  ops::Tensor Upload(const Array& array) {
    auto tensor = target_.Upload(array);
    EXPECT_TRUE(tensor.ok()) << tensor.status().message();
    return tensor.ok() ? *tensor : ops::Tensor();
  }
  // `like` as it is on the device.
  Array Read(const ops::Tensor& tensor, Array like) {
    const size_t bytes = like.bytes().size() - 1;
    const device::CopyItem item = {
        {const_cast<std::byte*>(like.bytes().data()), bytes, device::MemoryKind::kHost,
         device_->facts().id},
        {tensor.data, bytes, device::MemoryKind::kDevice, device_->facts().id}};
    const Status status = device_->Copy(*stream_, {&item, 1});
    EXPECT_TRUE(status.ok()) << status.message();
    return like;
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

  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  ops::ConformanceTarget target_;
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
