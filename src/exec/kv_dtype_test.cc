#include "exec/kv_dtype.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace sluice::exec {
namespace {

// Matrices of so many elements in each format, and a larger F32 vector beside them.
class Matrices : public files::TensorSource {
 public:
  explicit Matrices(const std::vector<std::pair<DType, int64_t>>& matrices) {
    tensors_.push_back({"norm", DType::kF32, {4096}, {}});
    for (const auto& [dtype, elements] : matrices) {
      tensors_.push_back({"matrix", dtype, {2, elements / 2}, {}});
    }
  }
  const std::vector<files::FileTensor>& tensors() const override { return tensors_; }
  const files::FileTensor* Find(std::string_view) const override { return nullptr; }
  void Release(const files::FileTensor&) const override {}

 private:
  std::vector<files::FileTensor> tensors_;
};

TEST(AutomaticKvDtype, WeightsInF32KeepTheCacheInF32OnEveryDevice) {
  for (const DType fastest : {DType::kF16, DType::kBF16}) {
    device::DeviceFacts facts;
    facts.kv_dtype = fastest;
    EXPECT_EQ(AutomaticKvDtype(Matrices({{DType::kF32, 64}}), facts), DType::kF32);
    EXPECT_EQ(AutomaticKvDtype(Matrices({{DType::kF32, 64}, {DType::kQ4_1, 62}}), facts),
              DType::kF32);
    for (const DType weights : {DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kQ4_1}) {
      EXPECT_EQ(AutomaticKvDtype(Matrices({{weights, 64}}), facts), fastest) << Name(weights);
      EXPECT_EQ(AutomaticKvDtype(Matrices({{DType::kF32, 62}, {weights, 64}}), facts), fastest)
          << Name(weights);
    }
    EXPECT_EQ(AutomaticKvDtype(Matrices({}), facts), fastest);
  }
}

TEST(ParseKvDtype, ANameOverridesWhatIsAutomatic) {
  for (const DType automatic : {DType::kF32, DType::kBF16}) {
    EXPECT_EQ(*ParseKvDtype("auto", automatic), automatic);
    EXPECT_EQ(*ParseKvDtype("f16", automatic), DType::kF16);
    EXPECT_EQ(*ParseKvDtype("int8", automatic), DType::kI8);
  }
  EXPECT_THAT(ParseKvDtype("f64", DType::kF16).status().message(),
              ::testing::HasSubstr("use auto, f32"));
}

}  // namespace
}  // namespace sluice::exec
