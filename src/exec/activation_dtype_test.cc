#include "exec/activation_dtype.h"

#include <gtest/gtest.h>

#include "exec/kv_dtype.h"

namespace sluice::exec {
namespace {

class Tensors : public files::TensorSource {
 public:
  void Add(DType dtype, std::vector<int64_t> shape, size_t bytes) {
    tensors_.push_back({"", dtype, std::move(shape), std::span(bytes_).first(bytes)});
  }
  const std::vector<files::FileTensor>& tensors() const override { return tensors_; }
  const files::FileTensor* Find(std::string_view) const override { return nullptr; }
  void Release(const files::FileTensor&) const override {}

 private:
  const std::vector<std::byte> bytes_ = std::vector<std::byte>(1000);
  std::vector<files::FileTensor> tensors_;
};

device::DeviceFacts Gpu() {
  device::DeviceFacts facts;
  facts.activation = facts.kv_dtype = DType::kBF16;
  return facts;
}

DType ActivationOfAll(DType dtype, const device::DeviceFacts& facts) {
  Tensors tensors;
  tensors.Add(dtype, {10, 10}, 200);
  tensors.Add(DType::kF32, {250}, 1000);  // norms don't count
  return ActivationOf(tensors, facts);
}

TEST(ActivationOf, FollowsTheModelWhereTheDeviceComputesIn16Bits) {
  for (const auto& [weights, activation] : {std::pair(DType::kF32, DType::kF32),
                                            {DType::kF16, DType::kF16},
                                            {DType::kBF16, DType::kBF16},
                                            {DType::kF8E4M3, DType::kBF16},
                                            {DType::kQ4_K, DType::kBF16},
                                            {DType::kQ8_0, DType::kBF16}}) {
    EXPECT_EQ(ActivationOfAll(weights, Gpu()), activation) << Name(weights);
    EXPECT_EQ(ActivationOfAll(weights, device::DeviceFacts()), DType::kF32) << Name(weights);
  }
}

TEST(ActivationOf, IsThatOfMostBytes) {
  Tensors tensors;
  tensors.Add(DType::kQ4_K, {10, 10}, 600);
  tensors.Add(DType::kF16, {10, 10}, 500);  // an output matrix, say
  tensors.Add(DType::kF32, {10, 10}, 200);
  EXPECT_EQ(ActivationOf(tensors, Gpu()), DType::kBF16);
  tensors.Add(DType::kF16, {10, 10}, 200);
  EXPECT_EQ(ActivationOf(tensors, Gpu()), DType::kF16);
  tensors.Add(DType::kF32, {10, 10}, 1000);
  tensors.Add(DType::kF32, {10, 10}, 100);
  EXPECT_EQ(ActivationOf(tensors, Gpu()), DType::kF32);
}

TEST(AutomaticKvDtype, IsF16ForActivationsInF16AndElseTheDevices) {
  Tensors f16, q4;
  f16.Add(DType::kF16, {10, 10}, 200);
  q4.Add(DType::kQ4_K, {10, 10}, 200);
  EXPECT_EQ(AutomaticKvDtype(f16, Gpu()), DType::kF16);
  EXPECT_EQ(AutomaticKvDtype(q4, Gpu()), DType::kBF16);
  device::DeviceFacts cpu;
  cpu.kv_dtype = DType::kBF16;
  EXPECT_EQ(AutomaticKvDtype(f16, cpu), DType::kBF16);
}

}  // namespace
}  // namespace sluice::exec
