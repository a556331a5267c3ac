// The kernels of a family give the same bits: outputs enough for tiles against streams of few rows.
// Conformance, whose cases are small, holds the streams against the reference.
#include <cmath>
#include <set>

#include "backend/cuda/cuda_test.h"
#include "backend/cuda/linear/block_wgmma.h"
#include "backend/cuda/linear/config.h"
#include "ops/linear.h"

namespace sluice::cuda {
namespace {

using ops::Array;
using ops::Linear;

struct Types {
  DType weight, activation;
};
constexpr Types kTypes[] = {
    {DType::kBF16, DType::kBF16},  {DType::kF8E4M3, DType::kBF16}, {DType::kF16, DType::kF16},
    {DType::kF8E4M3, DType::kF16}, {DType::kF32, DType::kF32},     {DType::kF16, DType::kF32},
    {DType::kBF16, DType::kF32},   {DType::kF8E4M3, DType::kF32},  {DType::kQ4_0, DType::kF32},
    {DType::kQ4_1, DType::kF32},   {DType::kQ5_0, DType::kF32},    {DType::kQ5_1, DType::kF32},
    {DType::kQ8_0, DType::kF32},   {DType::kIQ4_NL, DType::kF32},  {DType::kMXFP4, DType::kF32},
    {DType::kQ2_K, DType::kF32},   {DType::kQ3_K, DType::kF32},    {DType::kQ4_K, DType::kF32},
    {DType::kQ5_K, DType::kF32},   {DType::kQ6_K, DType::kF32},    {DType::kQ4_0, DType::kBF16},
    {DType::kQ4_1, DType::kBF16},  {DType::kQ5_0, DType::kBF16},   {DType::kQ5_1, DType::kBF16},
    {DType::kQ8_0, DType::kBF16},  {DType::kIQ4_NL, DType::kBF16}, {DType::kMXFP4, DType::kBF16},
    {DType::kQ2_K, DType::kBF16},  {DType::kQ3_K, DType::kBF16},   {DType::kQ4_K, DType::kBF16},
    {DType::kQ5_K, DType::kBF16},  {DType::kQ6_K, DType::kBF16}};
constexpr int kRows = 64, kMany = 300;

class LinearKernels : public CudaTest, public ::testing::WithParamInterface<Types> {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (device_ == nullptr) return;
    const auto [weight, activation] = GetParam();
    family_ = FindLinearFamily(NativeArithmetic(weight, activation), weight);
    ASSERT_NE(family_, nullptr);
    const int units = device_->facts().compute_units;
    desc_.weight = weight;
    desc_.activation = activation;
    desc_.n = int64_t{units} * family_->kernels.back().rows;
    // Of blocks more than a stage of the kernels for many tokens, with a rest.
    desc_.k = (IsQuantized(weight) ? 11 : 2) *
              std::max<int64_t>(Info(weight).block, LinearUnitOf(weight));
    // Bits whose numbers and scales are finite.
    ops::TestNoise noise(7);
    Array w(DType::kU8, {desc_.n, static_cast<int64_t>(RowBytes(weight, desc_.k))});
    for (size_t i = 0; i < w.Count(); ++i)
      w.tensor().data[i] = static_cast<std::byte>((noise.Next() & 0xbf) | 4);
    x_ = Array(activation, {kMany, desc_.k});
    noise.Fill(x_);
    weight_ = {memory_->Upload(w), weight, ops::LayoutId::kRowMajor, desc_.n, desc_.k};
  }

  const LinearKernel& KernelFor(int64_t m) const {
    const LinearShape shape = {
        .m = m, .n = desc_.n, .k = desc_.k, .compute_units = device_->facts().compute_units};
    return *PlanLinear(*family_, desc_.weight, shape).kernel;
  }

  // The results of rows [first, first + m) of x, row after row.
  std::vector<std::byte> Run(int64_t first, int64_t m) {
    const size_t row = RowBytes(desc_.activation, desc_.k);
    Array some(desc_.activation, {m, desc_.k});
    std::copy_n(x_.bytes().begin() + first * row, m * row, some.tensor().data);
    const Array out(desc_.activation, {m, desc_.n});
    Linear::Args args;
    args.x = memory_->Upload(some);
    args.weight = &weight_;
    args.out = memory_->Upload(out);
    const auto bound = ops::Bind<Linear>(device_->ops(), desc_);
    EXPECT_TRUE(bound.ok()) << bound.status().message();
    const Status status = bound.ok() ? (*bound)(*stream_, args) : bound.status();
    EXPECT_TRUE(status.ok()) << status.message();
    std::vector<std::byte> bytes = memory_->Download(args.out, out).bytes();
    bytes.pop_back();  // an Array has a byte to spare
    return bytes;
  }

  const LinearFamily* family_ = nullptr;
  Linear::Desc desc_;
  ops::PackedWeight weight_;
  Array x_;
};
INSTANTIATE_TEST_SUITE_P(Cuda, LinearKernels, ::testing::ValuesIn(kTypes), [](const auto& one) {
  return StrCat(Name(one.param.weight), "_", Name(one.param.activation));
});

TEST_P(LinearKernels, AllGiveARowTheSameBits) {
  const std::vector<std::byte> all = Run(0, kRows);
  const size_t row = RowBytes(desc_.activation, desc_.n);
  std::set<std::string> met = {KernelFor(kRows).function};
  for (const auto& [first, m] : {std::pair{0, 1}, {63, 1}, {3, 8}, {5, 16}, {20, 32}, {31, 33}}) {
    met.insert(KernelFor(m).function);
    const std::vector<std::byte> some = Run(first, m);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + first * row))
        << m << " rows from " << first << " by " << KernelFor(m).function << " and "
        << KernelFor(kRows).function;
  }
  EXPECT_EQ(KernelFor(kRows).tile, family_->kernels.back().tile);
  EXPECT_GE(met.size(), std::min<size_t>(family_->kernels.size(), 3));
  const Array numbers(desc_.activation, {1, desc_.n});
  std::copy_n(all.begin(), row, numbers.tensor().data);
  for (size_t i = 0; i < numbers.Count(); ++i) ASSERT_TRUE(std::isfinite(numbers.At(i))) << i;
}

// As many as have kernels of their own for W in blocks.
TEST_P(LinearKernels, ManyTokensGiveTheSameBits) {
  const size_t row = RowBytes(desc_.activation, desc_.n);
  const std::vector<std::byte> all = Run(0, kMany);
  EXPECT_TRUE(SuitsBlockWgmma(
      {.m = kMany, .n = desc_.n, .k = desc_.k, .compute_units = device_->facts().compute_units}));
  for (const auto& [first, m] : {std::pair{0, 1}, {299, 1}, {100, 64}, {150, 8}, {130, 128}}) {
    const std::vector<std::byte> some = Run(first, m);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + first * row))
        << m << " rows from " << first;
  }
}

}  // namespace
}  // namespace sluice::cuda
