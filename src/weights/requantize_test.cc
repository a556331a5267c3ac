#include "weights/requantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "files/gguf.h"
#include "files/test_files.h"
#include "ops/formats/rows.h"

namespace sluice::weights {
namespace {

using ::testing::HasSubstr;

// More rows than one chunk has, and the last chunk is not whole.
constexpr int64_t kManyRows = 5000, kManyColumns = 256;

// A file with one F32 matrix.
class RequantizeTest : public ::testing::Test {
 protected:
  void Open(const std::vector<float>& values) {
    bytes_ = files::testing::GgufWriter()
                 .Add("m.weight", DType::kF32,
                      {static_cast<int64_t>(values.size()) / kManyColumns, kManyColumns},
                      std::as_bytes(std::span(values)))
                 .Bytes();
    file_ = files::GgufFile::FromMemory(bytes_, "tiny.gguf").value();
  }
  static std::vector<float> Normal(int64_t rows) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> values(rows * kManyColumns);
    for (float& value : values) value = normal(random);
    return values;
  }
  Result<double> Run(DType dtype, int threads, std::vector<std::byte>* out) {
    return Requantize(*file_, file_->tensors()[0], dtype, threads, [&](auto bytes) {
      out->insert(out->end(), bytes.begin(), bytes.end());
      return OkStatus();
    });
  }
  std::vector<std::byte> bytes_;
  std::shared_ptr<const files::GgufFile> file_;
};

TEST_F(RequantizeTest, GivesTheRowsOfTheFormatAndTheirError) {
  const std::vector<float> values = Normal(kManyRows);
  Open(values);
  for (const DType dtype : {DType::kQ4_0, DType::kBF16}) {
    std::vector<std::byte> expected(RowBytes(dtype, values.size())), one, three;
    ops::QuantizeRow(dtype, values, expected.data());
    std::vector<float> after(values.size());
    ops::DequantizeRow(dtype, expected.data(), after);
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      sum += std::pow(double{values[i]} - double{after[i]}, 2);
    }
    const double rmse = std::sqrt(sum / static_cast<double>(values.size()));
    const double with_one = Run(dtype, 1, &one).value();
    EXPECT_NEAR(with_one, rmse, 1e-9 * rmse);
    EXPECT_EQ(Run(dtype, 3, &three).value(), with_one);
    EXPECT_TRUE(one == expected) << Name(dtype);
    EXPECT_TRUE(three == expected) << Name(dtype);
  }
}

TEST_F(RequantizeTest, TheSameFormatIsACopyEvenOfNaN) {
  std::vector<float> values = Normal(2);
  values[3] = std::numeric_limits<float>::quiet_NaN();
  Open(values);
  std::vector<std::byte> out;
  EXPECT_EQ(Run(DType::kF32, 2, &out).value(), 0.0);
  EXPECT_TRUE(std::ranges::equal(out, std::as_bytes(std::span(values))));
}

TEST_F(RequantizeTest, ValuesThatTheFormatCannotHoldAreAnError) {
  const struct {
    float value;
    DType dtype;
  } cases[] = {{std::numeric_limits<float>::quiet_NaN(), DType::kQ4_K},
               {std::numeric_limits<float>::infinity(), DType::kQ8_0},
               {-std::numeric_limits<float>::infinity(), DType::kQ6_K},
               {1e6f, DType::kF16}};
  for (const auto& [value, dtype] : cases) {
    std::vector<float> values = Normal(2);
    values[300] = value;
    Open(values);
    std::vector<std::byte> out;
    const Status status = Run(dtype, 1, &out).status();
    EXPECT_EQ(status.code(), StatusCode::kBadModel) << value;
    EXPECT_THAT(status.message(), HasSubstr("\"m.weight\"")) << value;
  }
}

TEST_F(RequantizeTest, AnErrorOfTheSinkEndsTheWork) {
  Open(Normal(kManyRows));
  for (const DType dtype : {DType::kQ8_0, DType::kF32}) {
    int calls = 0;
    const auto result = Requantize(*file_, file_->tensors()[0], dtype, 2, [&](auto) {
      ++calls;
      return Status(StatusCode::kCancelled, "enough");
    });
    EXPECT_EQ(result.status().code(), StatusCode::kCancelled);
    EXPECT_EQ(calls, 1);
  }
}

}  // namespace
}  // namespace sluice::weights
