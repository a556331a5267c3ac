// Rows of ops that have sums: long ones, and one among others. Where there is no GPU, these tests
// say so and pass.
#include "backend/cuda/ops.h"

#include "backend/cuda/cuda_test.h"
#include "backend/cuda/rope_kv/impls.h"
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

TEST(CudaOpTableTest, NamesSayInWhatKernelsMultiply) {
  const device::DeviceFacts facts;
  ops::OpTable table(&facts);
  RegisterCudaOps(table);
  EXPECT_FALSE(table.Arithmetics().empty());
  for (const auto& [name, arithmetic] : table.Arithmetics())
    EXPECT_EQ(arithmetic, ops::ArithmeticInName(name)) << name;
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

// Thread blocks that go through their code once before they have inputs, and many that don't.
TEST_F(CudaOpsTest, ManyCasesOfRopeAgreeWithTheReference) {
  EXPECT_EQ(Verify(*device_, &RegisterRopeKv, 200), "");
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
