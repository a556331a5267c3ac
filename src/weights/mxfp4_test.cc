#include "weights/mxfp4.h"

#include <gmock/gmock.h>

#include <cmath>

#include "ops/formats/rows.h"
#include "weights/weights_fixture.h"

namespace sluice::weights {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMxfp4Experts = 2, kMxfp4Rows = 3, kMxfp4Columns = 64,
                  kMxfp4Blocks = kMxfp4Columns / 32;

int Exponent(int64_t row, int64_t block) { return static_cast<int>(120 + row + block); }

std::vector<std::byte> Mxfp4Codes() {
  std::vector<std::byte> bytes;
  for (int64_t row = 0; row < kMxfp4Experts * kMxfp4Rows; ++row) {
    for (int64_t column = 0; column < kMxfp4Columns; column += 2) {
      bytes.push_back(static_cast<std::byte>(CodeAt(row, column) | CodeAt(row, column + 1) << 4));
    }
  }
  return bytes;
}
std::vector<std::byte> Mxfp4Scales() {
  std::vector<std::byte> bytes;
  for (int64_t i = 0; i < kMxfp4Experts * kMxfp4Rows * kMxfp4Blocks; ++i) {
    bytes.push_back(static_cast<std::byte>(Exponent(i / kMxfp4Blocks, i % kMxfp4Blocks)));
  }
  return bytes;
}
void Add(FakeSource& source, std::vector<std::byte> scales) {
  source.Add("x_blocks", DType::kU8, {kMxfp4Experts, kMxfp4Rows, kMxfp4Blocks, 16}, Mxfp4Codes());
  source.Add("x_scales", DType::kU8, {kMxfp4Experts, kMxfp4Rows, kMxfp4Blocks}, std::move(scales));
}

std::string Mxfp4Error(const FakeSource& source, int64_t rows = kMxfp4Rows,
                       int64_t columns = kMxfp4Columns) {
  const auto found = Mxfp4Matrix::Find("x", kMxfp4Experts, rows, columns, source);
  return found.ok() ? "no error" : std::string(found.status().message());
}

TEST(Mxfp4Test, RowsAreThoseOfTheFormat) {
  FakeSource source;
  Add(source, Mxfp4Scales());
  const auto found = Mxfp4Matrix::Find("x", kMxfp4Experts, kMxfp4Rows, kMxfp4Columns, source);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ((*found)->tensor().shape,
            (std::vector<int64_t>{kMxfp4Experts, kMxfp4Rows, kMxfp4Columns}));
  EXPECT_EQ((*found)->tensor().dtype, DType::kMXFP4);
  const std::vector<std::byte> rows = (*found)->Rows(1, kMxfp4Experts * kMxfp4Rows - 1);
  std::vector<float> values(kMxfp4Columns);
  for (int64_t row = 1; row < kMxfp4Experts * kMxfp4Rows; ++row) {
    ops::DequantizeRow(DType::kMXFP4, rows.data() + (row - 1) * kMxfp4Blocks * 17, values);
    for (int64_t c = 0; c < kMxfp4Columns; ++c) {
      EXPECT_EQ(values[c], std::ldexp(ValueOfCode(CodeAt(row, c)), Exponent(row, c / 32) - 127))
          << row << ", " << c;
    }
  }
}

TEST(Mxfp4Test, WhatDoesNotFitIsRefusedWithASentence) {
  FakeSource none;
  const auto found = Mxfp4Matrix::Find("x", kMxfp4Experts, kMxfp4Rows, kMxfp4Columns, none);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, nullptr);
  FakeSource source;
  Add(source, Mxfp4Scales());
  EXPECT_THAT(Mxfp4Error(source, kMxfp4Rows + 1), HasSubstr("\"x_blocks\" is U8 of shape"));
  EXPECT_THAT(Mxfp4Error(source, kMxfp4Rows, 40), HasSubstr("no multiple of 32"));
  FakeSource damaged;
  std::vector<std::byte> scales = Mxfp4Scales();
  scales.back() = std::byte{255};
  Add(damaged, scales);
  EXPECT_THAT(Mxfp4Error(damaged), HasSubstr("a scale of 255"));
  FakeSource half;
  half.Add("x_blocks", DType::kU8, {kMxfp4Experts, kMxfp4Rows, kMxfp4Blocks, 16}, Mxfp4Codes());
  EXPECT_THAT(Mxfp4Error(half), HasSubstr("no tensor \"x_scales\""));
}

}  // namespace
}  // namespace sluice::weights
