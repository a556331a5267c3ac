#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ops/formats/format.h"
#include "ops/formats/rows.h"

namespace sluice::ops {
namespace {

std::string DTypeName(const testing::TestParamInfo<DType>& info) {
  return std::string(Name(info.param));
}

class Golden : public testing::TestWithParam<DType> {};

// Blocks of random bits, subnormal scales among them, against the values of the `gguf` package.
TEST_P(Golden, DequantizesToTheBit) {
  const DType dtype = GetParam();
  const std::string path =
      std::string(SLUICE_SOURCE_DIR "/tests/golden/formats/") + std::string(Name(dtype)) + ".bin";
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  ASSERT_FALSE(bytes.empty()) << path;
  const size_t blocks = bytes.size() / (Info(dtype).bytes + 4 * Info(dtype).block);
  std::vector<float> expected(blocks * Info(dtype).block), actual(expected.size());
  const size_t stored = blocks * Info(dtype).bytes;
  ASSERT_EQ(bytes.size(), stored + expected.size() * sizeof(float));
  std::memcpy(expected.data(), bytes.data() + stored, expected.size() * sizeof(float));
  DequantizeRow(dtype, reinterpret_cast<const std::byte*>(bytes.data()), actual);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(expected[i]), std::bit_cast<uint32_t>(actual[i]))
        << "element " << i << ": " << expected[i] << " and " << actual[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Golden,
                         testing::Values(DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0,
                                         DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ2_K,
                                         DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K,
                                         DType::kIQ4_NL, DType::kMXFP4),
                         DTypeName);

struct ErrorBound {
  DType dtype;
  double rmse_max;  // of unit normal input
};

void PrintTo(const ErrorBound& bound, std::ostream* out) { *out << Name(bound.dtype); }

class RoundTrip : public testing::TestWithParam<ErrorBound> {};

TEST_P(RoundTrip, ErrorIsThatOfTheFormat) {
  const auto [dtype, rmse_max] = GetParam();
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> in(32 * 512), out(in.size());
  for (float& value : in) value = normal(random);
  std::vector<std::byte> row(RowBytes(dtype, in.size()));
  ASSERT_TRUE(CanQuantize(dtype));
  QuantizeRow(dtype, in, row.data());
  DequantizeRow(dtype, row.data(), out);
  double sum = 0;
  for (size_t i = 0; i < in.size(); ++i) sum += std::pow(double{in[i]} - double{out[i]}, 2);
  const double rmse = std::sqrt(sum / static_cast<double>(in.size()));
  EXPECT_LE(rmse, rmse_max);
  EXPECT_GE(rmse, rmse_max * (dtype == DType::kF32 ? 0.0 : 0.5)) << "the bound is too loose";
}

// The bounds are a step's uniform error (step / sqrt(12)) for blocks of 32 normal values, rounded
// up: extremes lie at about 2.1 sigma.
INSTANTIATE_TEST_SUITE_P(
    Formats, RoundTrip,
    testing::Values(ErrorBound{DType::kF32, 0.0}, ErrorBound{DType::kF16, 3e-4},
                    ErrorBound{DType::kBF16, 2.4e-3}, ErrorBound{DType::kF8E4M3, 4e-2},
                    ErrorBound{DType::kQ8_0, 8e-3}, ErrorBound{DType::kQ4_0, 0.11},
                    ErrorBound{DType::kQ4_1, 0.09}, ErrorBound{DType::kQ5_0, 0.06},
                    ErrorBound{DType::kQ5_1, 0.045}));

TEST(Quantize, ValuesOnTheGridSurvive) {
  for (DType dtype : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1}) {
    const BlockFormat& format = *FindBlockFormat(dtype);
    std::vector<float> in(32), out(32);
    // Every code of 4-bit formats, with both extremes; the scale is a power of two.
    const int top = format.bits == 8 ? 127 : (1 << format.bits) - 1;
    for (int i = 0; i < 32; ++i) {
      const int code = format.bits == 8 ? i * 8 - 127 : i * top / 31;
      in[i] = 0.25f * static_cast<float>(code - (format.bits == 8 ? 0 : format.offset));
    }
    std::vector<std::byte> row(Info(dtype).bytes);
    QuantizeRow(dtype, in, row.data());
    DequantizeRow(dtype, row.data(), out);
    EXPECT_EQ(in, out) << Name(dtype);
  }
}

TEST(Quantize, ZerosAndHugeValuesAreSafe) {
  for (DType dtype : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1}) {
    std::vector<float> in(32, 0.0f), out(32, 1.0f);
    std::vector<std::byte> row(Info(dtype).bytes);
    QuantizeRow(dtype, in, row.data());
    DequantizeRow(dtype, row.data(), out);
    EXPECT_EQ(in, out) << Name(dtype);
    in[3] = std::numeric_limits<float>::quiet_NaN();
    in[9] = std::numeric_limits<float>::infinity();
    in[11] = -std::numeric_limits<float>::max();
    QuantizeRow(dtype, in, row.data());
  }
}

TEST(Formats, EveryTypeHasAnAnswer) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType dtype = static_cast<DType>(i);
    const BlockFormat* format = FindBlockFormat(dtype);
    EXPECT_EQ(format != nullptr, IsQuantized(dtype)) << Name(dtype);
    if (format == nullptr) continue;
    EXPECT_EQ(format->block, Info(dtype).block);
    EXPECT_TRUE(CanDequantize(dtype));
  }
  EXPECT_FALSE(CanDequantize(DType::kI32));
  EXPECT_FALSE(CanQuantize(DType::kQ4_K));
}

}  // namespace
}  // namespace sluice::ops
