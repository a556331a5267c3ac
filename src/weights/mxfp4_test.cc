#include "weights/mxfp4.h"

#include <gmock/gmock.h>

#include <cmath>

#include "ops/formats/rows.h"
#include "weights/weights_fixture.h"

namespace sluice::weights {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kExperts = 2, kRows = 3, kColumns = 64, kBlocks = kColumns / 32;

int Code(int64_t row, int64_t column) { return static_cast<int>((row * 5 + column * 3) % 16); }
int Exponent(int64_t row, int64_t block) { return static_cast<int>(120 + row + block); }
double Value(int code) {
  constexpr double kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return code < 8 ? kValues[code] : -kValues[code - 8];
}

std::vector<std::byte> Codes() {
  std::vector<std::byte> bytes;
  for (int64_t row = 0; row < kExperts * kRows; ++row) {
    for (int64_t column = 0; column < kColumns; column += 2) {
      bytes.push_back(static_cast<std::byte>(Code(row, column) | Code(row, column + 1) << 4));
    }
  }
  return bytes;
}
std::vector<std::byte> Scales() {
  std::vector<std::byte> bytes;
  for (int64_t i = 0; i < kExperts * kRows * kBlocks; ++i) {
    bytes.push_back(static_cast<std::byte>(Exponent(i / kBlocks, i % kBlocks)));
  }
  return bytes;
}
void Add(FakeSource& source, std::vector<std::byte> scales) {
  source.Add("x_blocks", DType::kU8, {kExperts, kRows, kBlocks, 16}, Codes());
  source.Add("x_scales", DType::kU8, {kExperts, kRows, kBlocks}, std::move(scales));
}

std::string ErrorOf(const FakeSource& source, int64_t rows = kRows, int64_t columns = kColumns) {
  const auto found = Mxfp4Matrix::Find("x", kExperts, rows, columns, source);
  return found.ok() ? "no error" : std::string(found.status().message());
}

TEST(Mxfp4Test, RowsAreThoseOfTheFormat) {
  FakeSource source;
  Add(source, Scales());
  const auto found = Mxfp4Matrix::Find("x", kExperts, kRows, kColumns, source);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ((*found)->tensor().shape, (std::vector<int64_t>{kExperts, kRows, kColumns}));
  EXPECT_EQ((*found)->tensor().dtype, DType::kMXFP4);
  const std::vector<std::byte> rows = (*found)->Rows(1, kExperts * kRows - 1);
  std::vector<float> values(kColumns);
  for (int64_t row = 1; row < kExperts * kRows; ++row) {
    ops::DequantizeRow(DType::kMXFP4, rows.data() + (row - 1) * kBlocks * 17, values);
    for (int64_t c = 0; c < kColumns; ++c) {
      EXPECT_EQ(values[c], std::ldexp(Value(Code(row, c)), Exponent(row, c / 32) - 127))
          << row << ", " << c;
    }
  }
}

TEST(Mxfp4Test, WhatDoesNotFitIsRefusedWithASentence) {
  FakeSource none;
  const auto found = Mxfp4Matrix::Find("x", kExperts, kRows, kColumns, none);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, nullptr);
  FakeSource source;
  Add(source, Scales());
  EXPECT_THAT(ErrorOf(source, kRows + 1), HasSubstr("\"x_blocks\" is U8 of shape"));
  EXPECT_THAT(ErrorOf(source, kRows, 40), HasSubstr("no multiple of 32"));
  FakeSource damaged;
  std::vector<std::byte> scales = Scales();
  scales.back() = std::byte{255};
  Add(damaged, scales);
  EXPECT_THAT(ErrorOf(damaged), HasSubstr("a scale of 255"));
  FakeSource half;
  half.Add("x_blocks", DType::kU8, {kExperts, kRows, kBlocks, 16}, Codes());
  EXPECT_THAT(ErrorOf(half), HasSubstr("no tensor \"x_scales\""));
}

}  // namespace
}  // namespace sluice::weights
