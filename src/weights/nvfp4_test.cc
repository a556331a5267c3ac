#include "weights/nvfp4.h"

#include <gmock/gmock.h>

#include <cmath>

#include "ops/formats/rows.h"
#include "weights/weights_fixture.h"

namespace sluice::weights {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kNvfp4Rows = 3, kNvfp4Columns = 128, kNvfp4Sub = 16;

// Of every size that E4M3 has, 0 among them.
uint8_t Nvfp4Scale(int64_t row, int64_t sub) {
  return static_cast<uint8_t>((row * 8 + sub) * 5 % 0x7f);
}

std::vector<std::byte> Nvfp4Codes() {
  std::vector<std::byte> bytes;
  for (int64_t row = 0; row < kNvfp4Rows; ++row) {
    for (int64_t column = 0; column < kNvfp4Columns; column += 2) {
      bytes.push_back(static_cast<std::byte>(CodeAt(row, column) | CodeAt(row, column + 1) << 4));
    }
  }
  return bytes;
}
std::vector<std::byte> Nvfp4Scales() {
  std::vector<std::byte> bytes;
  for (int64_t i = 0; i < kNvfp4Rows * kNvfp4Columns / kNvfp4Sub; ++i) {
    bytes.push_back(static_cast<std::byte>(
        Nvfp4Scale(i / (kNvfp4Columns / kNvfp4Sub), i % (kNvfp4Columns / kNvfp4Sub))));
  }
  return bytes;
}

void AddModelOpt(FakeSource& source, const std::string& name, float scale) {
  source.Add(name, DType::kU8, {kNvfp4Rows, kNvfp4Columns / 2}, Nvfp4Codes());
  source.Add(name + "_scale", DType::kF8E4M3, {kNvfp4Rows, kNvfp4Columns / kNvfp4Sub},
             Nvfp4Scales());
  source.AddF32(name + "_scale_2", {}, {scale});
}
void AddCompressed(FakeSource& source, const std::string& name, float divisor) {
  source.Add(name + "_packed", DType::kU8, {kNvfp4Rows, kNvfp4Columns / 2}, Nvfp4Codes());
  source.Add(name + "_scale", DType::kF8E4M3, {kNvfp4Rows, kNvfp4Columns / kNvfp4Sub},
             Nvfp4Scales());
  source.AddF32(name + "_global_scale", {1}, {divisor});
}

std::string Nvfp4Error(const FakeSource& source, int64_t rows = kNvfp4Rows,
                       int64_t columns = kNvfp4Columns) {
  const auto found = Nvfp4Matrix::Find("x.weight", rows, columns, source);
  return found.ok() ? "no error" : std::string(found.status().message());
}

TEST(Nvfp4Test, BothSpellingsGiveTheSameRows) {
  FakeSource modelopt, compressed;
  AddModelOpt(modelopt, "x.weight", 0.25f);
  AddCompressed(compressed, "x.weight", 4.0f);
  for (const FakeSource* source : {&modelopt, &compressed}) {
    const auto found = Nvfp4Matrix::Find("x.weight", kNvfp4Rows, kNvfp4Columns, *source);
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ((*found)->tensor().dtype, DType::kNVFP4);
    const std::vector<std::byte> rows = (*found)->Rows(1, kNvfp4Rows - 1);
    ASSERT_EQ(rows.size(), (kNvfp4Rows - 1) * RowBytes(DType::kNVFP4, kNvfp4Columns));
    std::vector<float> values(kNvfp4Columns);
    for (int64_t row = 1; row < kNvfp4Rows; ++row) {
      ops::DequantizeRow(DType::kNVFP4,
                         rows.data() + (row - 1) * RowBytes(DType::kNVFP4, kNvfp4Columns), values);
      for (int64_t c = 0; c < kNvfp4Columns; ++c) {
        EXPECT_EQ(values[c],
                  ValueOfCode(CodeAt(row, c)) * F8E4M3ToF32(Nvfp4Scale(row, c / kNvfp4Sub)))
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
  ParamSpec spec =
      Matrix("m", kNvfp4Columns, {{"gate.weight", kNvfp4Rows}, {"up.weight", kNvfp4Rows}});
  const auto map = Place({spec}, source, device);
  ASSERT_TRUE(map.ok()) << map.status().message();
  const auto& parts = map->Find("m")->parts;
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].weight.dtype, DType::kNVFP4);
  EXPECT_EQ(parts[0].linear.desc().weight_scales, ops::WeightScales::kRow);
  EXPECT_THAT(Values(parts[0].weight.scales),
              ElementsAre(0.25f, 0.25f, 0.25f, 0.125f, 0.125f, 0.125f));
  EXPECT_EQ(map->bytes(),
            2 * kNvfp4Rows * (RowBytes(DType::kNVFP4, kNvfp4Columns) + sizeof(float)));
}

// As where kernels know no scales.
TEST(Nvfp4Test, ADeviceWithoutItsProductsGetsBf16) {
  FakeSource source;
  AddModelOpt(source, "x.weight", 0.25f);
  FakeDevice device;
  const auto map = Place({Matrix("m", kNvfp4Columns, {{"x.weight", kNvfp4Rows}})}, source, device);
  ASSERT_TRUE(map.ok()) << map.status().message();
  const ops::PackedWeight& weight = map->Find("m")->parts.front().weight;
  ASSERT_EQ(weight.dtype, DType::kBF16);
  for (int64_t row = 0; row < kNvfp4Rows; ++row) {
    for (int64_t c = 0; c < kNvfp4Columns; ++c) {
      const double exact =
          0.25 * ValueOfCode(CodeAt(row, c)) * F8E4M3ToF32(Nvfp4Scale(row, c / kNvfp4Sub));
      EXPECT_EQ(BF16ToF32(weight.data.ptr<uint16_t>()[row * kNvfp4Columns + c]),
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
  EXPECT_THAT(Nvfp4Error(source, kNvfp4Rows + 1), HasSubstr("\"x.weight\" is U8 of shape [3, 64]"));
  EXPECT_THAT(Nvfp4Error(source, kNvfp4Rows, 96), HasSubstr("no multiple of 64"));

  FakeSource half;
  half.Add("x.weight", DType::kU8, {kNvfp4Rows, kNvfp4Columns / 2}, Nvfp4Codes());
  EXPECT_THAT(Nvfp4Error(half), HasSubstr("no tensor \"x.weight_scale\""));
  half.Add("x.weight_scale", DType::kF8E4M3, {kNvfp4Rows, kNvfp4Columns / kNvfp4Sub},
           Nvfp4Scales());
  EXPECT_THAT(Nvfp4Error(half), HasSubstr("no tensor \"x.weight_scale_2\""));
  half.AddF32("x.weight_scale_2", {2}, {1.0f, 2.0f});
  EXPECT_THAT(Nvfp4Error(half), HasSubstr("is one number"));

  for (const auto& [scale, message] : {std::pair(std::byte{0x7f}, "negative or no number"),
                                       {std::byte{0x81}, "negative or no number"}}) {
    FakeSource damaged;
    std::vector<std::byte> scales = Nvfp4Scales();
    scales.back() = scale;
    damaged.Add("x.weight_packed", DType::kU8, {kNvfp4Rows, kNvfp4Columns / 2}, Nvfp4Codes());
    damaged.Add("x.weight_scale", DType::kF8E4M3, {kNvfp4Rows, kNvfp4Columns / kNvfp4Sub}, scales);
    damaged.AddF32("x.weight_global_scale", {1}, {1.0f});
    EXPECT_THAT(Nvfp4Error(damaged), HasSubstr(message));
  }
  FakeSource zero;
  AddCompressed(zero, "x.weight", 0.0f);
  EXPECT_THAT(Nvfp4Error(zero), HasSubstr("finite and above 0"));
}

}  // namespace
}  // namespace sluice::weights
