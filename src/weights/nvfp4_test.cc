#include "weights/nvfp4.h"

#include <gmock/gmock.h>

#include <cmath>

#include "ops/formats/rows.h"
#include "weights/weights_fixture.h"

namespace sluice::weights {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kRows = 3, kColumns = 128, kSub = 16;

int Code(int64_t row, int64_t column) { return static_cast<int>((row * 5 + column * 3) % 16); }
// Of every size that E4M3 has, 0 among them.
uint8_t Scale(int64_t row, int64_t sub) { return static_cast<uint8_t>((row * 8 + sub) * 5 % 0x7f); }
double Value(int code) {
  constexpr double kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return code < 8 ? kValues[code] : -kValues[code - 8];
}

std::vector<std::byte> Codes() {
  std::vector<std::byte> bytes;
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t column = 0; column < kColumns; column += 2) {
      bytes.push_back(static_cast<std::byte>(Code(row, column) | Code(row, column + 1) << 4));
    }
  }
  return bytes;
}
std::vector<std::byte> Scales() {
  std::vector<std::byte> bytes;
  for (int64_t i = 0; i < kRows * kColumns / kSub; ++i) {
    bytes.push_back(static_cast<std::byte>(Scale(i / (kColumns / kSub), i % (kColumns / kSub))));
  }
  return bytes;
}

void AddModelOpt(FakeSource& source, const std::string& name, float scale) {
  source.Add(name, DType::kU8, {kRows, kColumns / 2}, Codes());
  source.Add(name + "_scale", DType::kF8E4M3, {kRows, kColumns / kSub}, Scales());
  source.AddF32(name + "_scale_2", {}, {scale});
}
void AddCompressed(FakeSource& source, const std::string& name, float divisor) {
  source.Add(name + "_packed", DType::kU8, {kRows, kColumns / 2}, Codes());
  source.Add(name + "_scale", DType::kF8E4M3, {kRows, kColumns / kSub}, Scales());
  source.AddF32(name + "_global_scale", {1}, {divisor});
}

std::string ErrorOf(const FakeSource& source, int64_t rows = kRows, int64_t columns = kColumns) {
  const auto found = Nvfp4Matrix::Find("x.weight", rows, columns, source);
  return found.ok() ? "no error" : std::string(found.status().message());
}

TEST(Nvfp4Test, BothSpellingsGiveTheSameRows) {
  FakeSource modelopt, compressed;
  AddModelOpt(modelopt, "x.weight", 0.25f);
  AddCompressed(compressed, "x.weight", 4.0f);
  for (const FakeSource* source : {&modelopt, &compressed}) {
    const auto found = Nvfp4Matrix::Find("x.weight", kRows, kColumns, *source);
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ((*found)->tensor().dtype, DType::kNVFP4);
    const std::vector<std::byte> rows = (*found)->Rows(1, kRows - 1);
    ASSERT_EQ(rows.size(), (kRows - 1) * RowBytes(DType::kNVFP4, kColumns));
    std::vector<float> values(kColumns);
    for (int64_t row = 1; row < kRows; ++row) {
      ops::DequantizeRow(DType::kNVFP4, rows.data() + (row - 1) * RowBytes(DType::kNVFP4, kColumns),
                         values);
      for (int64_t c = 0; c < kColumns; ++c) {
        EXPECT_EQ(values[c], Value(Code(row, c)) * F8E4M3ToF32(Scale(row, c / kSub)))
            << row << ", " << c;
      }
    }
  }
}

// A matrix of two with scales of their own is one with a scale for each row.
TEST(Nvfp4Test, MergedMatricesKeepTheirScales) {
  FakeSource source;
  AddModelOpt(source, "gate.weight", 0.25f);
  AddCompressed(source, "up.weight", 8.0f);
  FakeDevice device;
  device.facts_.architecture = "f8";
  ParamSpec spec = Matrix("m", kColumns, {{"gate.weight", kRows}, {"up.weight", kRows}});
  const auto map = Place({spec}, source, device);
  ASSERT_TRUE(map.ok()) << map.status().message();
  const auto& parts = map->Find("m")->parts;
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].weight.dtype, DType::kNVFP4);
  EXPECT_EQ(parts[0].linear.desc().weight_scales, ops::WeightScales::kRow);
  EXPECT_THAT(Values(parts[0].weight.scales),
              ElementsAre(0.25f, 0.25f, 0.25f, 0.125f, 0.125f, 0.125f));
  EXPECT_EQ(map->bytes(), 2 * kRows * (RowBytes(DType::kNVFP4, kColumns) + sizeof(float)));
}

// As where kernels know no scales.
TEST(Nvfp4Test, ADeviceWithoutItsProductsGetsBf16) {
  FakeSource source;
  AddModelOpt(source, "x.weight", 0.25f);
  FakeDevice device;
  const auto map = Place({Matrix("m", kColumns, {{"x.weight", kRows}})}, source, device);
  ASSERT_TRUE(map.ok()) << map.status().message();
  const ops::PackedWeight& weight = map->Find("m")->parts.front().weight;
  ASSERT_EQ(weight.dtype, DType::kBF16);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t c = 0; c < kColumns; ++c) {
      const double exact = 0.25 * Value(Code(row, c)) * F8E4M3ToF32(Scale(row, c / kSub));
      EXPECT_EQ(BF16ToF32(weight.data.ptr<uint16_t>()[row * kColumns + c]),
                BF16ToF32(F32ToBF16(static_cast<float>(exact))))
          << row << ", " << c;
    }
  }
}

TEST(Nvfp4Test, WhatDoesNotFitIsRefusedWithASentence) {
  FakeSource none;
  none.AddF32("x.weight", {1, 1}, {1.0f});
  const auto found = Nvfp4Matrix::Find("x.weight", 1, 1, none);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, nullptr);

  FakeSource source;
  AddModelOpt(source, "x.weight", 1.0f);
  EXPECT_THAT(ErrorOf(source, kRows + 1), HasSubstr("\"x.weight\" is U8 of shape [3, 64]"));
  EXPECT_THAT(ErrorOf(source, kRows, 96), HasSubstr("no multiple of 64"));

  FakeSource half;
  half.Add("x.weight", DType::kU8, {kRows, kColumns / 2}, Codes());
  EXPECT_THAT(ErrorOf(half), HasSubstr("no tensor \"x.weight_scale\""));
  half.Add("x.weight_scale", DType::kF8E4M3, {kRows, kColumns / kSub}, Scales());
  EXPECT_THAT(ErrorOf(half), HasSubstr("no tensor \"x.weight_scale_2\""));
  half.AddF32("x.weight_scale_2", {2}, {1.0f, 2.0f});
  EXPECT_THAT(ErrorOf(half), HasSubstr("is one number"));

  for (const auto& [scale, message] : {std::pair(std::byte{0x7f}, "negative or no number"),
                                       {std::byte{0x81}, "negative or no number"}}) {
    FakeSource damaged;
    std::vector<std::byte> scales = Scales();
    scales.back() = scale;
    damaged.Add("x.weight_packed", DType::kU8, {kRows, kColumns / 2}, Codes());
    damaged.Add("x.weight_scale", DType::kF8E4M3, {kRows, kColumns / kSub}, scales);
    damaged.AddF32("x.weight_global_scale", {1}, {1.0f});
    EXPECT_THAT(ErrorOf(damaged), HasSubstr(message));
  }
  FakeSource zero;
  AddCompressed(zero, "x.weight", 0.0f);
  EXPECT_THAT(ErrorOf(zero), HasSubstr("finite and above 0"));
}

}  // namespace
}  // namespace sluice::weights
