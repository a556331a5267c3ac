#include "ops/group_quant.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/op_fixture.h"

namespace sluice::ops {
namespace {

using ::testing::HasSubstr;

struct Coded {
  Array codes, scales;
};

class GroupQuantTest : public OpTest {
 protected:
  // Codes and scales of the rows of `x`; what nobody writes is 0x55.
  Coded Quantize(const GroupQuant::Desc& desc, const Array& x, const Array& counts = {}) {
    const int64_t rows = x.tensor().dims[0];
    Coded coded = {Array(desc.codes, {rows, desc.width}),
                   Array(desc.ScaleDType(), {desc.groups(), rows})};
    for (const Array* array : {&coded.codes, &coded.scales})
      std::memset(array->tensor().data, 0x55, array->bytes().size() - 1);
    GroupQuant::Args args{.x = x.tensor()};
    if (desc.parts > 0) args.counts = counts.tensor();
    args.codes = coded.codes.tensor();
    args.scales = coded.scales.tensor();
    const Status status = Run<GroupQuant>(desc, args);
    EXPECT_TRUE(status.ok()) << status.message();
    return coded;
  }
};
SLUICE_FOR_EACH_INSTRUCTION_SET(GroupQuantTest);

TEST_P(GroupQuantTest, AHandComputedRowInEveryFormat) {
  const Array x = Array::Floats(DType::kF32, {1, 6}, {1, -448, 99, 0.5f, -0.25f, 0});
  GroupQuant::Desc desc{.width = 6, .group = 4};
  Coded coded = Quantize(desc, x);
  EXPECT_EQ(coded.scales.At(0), 1.0f);
  EXPECT_EQ(coded.scales.At(1), 0.25f / 448.0f);
  const float f8[] = {1, -448, 96, 0.5f, -448, 0};  // the neighbours of 99 are 96 and 104
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(coded.codes.At(i), f8[i]) << i;

  desc.codes = DType::kI8;
  coded = Quantize(desc, x);
  EXPECT_EQ(coded.scales.At(0), 448.0f / 127.0f);
  const float i8[] = {0, -127, 28, 0, -127, 0};
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(coded.codes.At(i), i8[i]) << i;

  // 448 / 127 = 3.53 becomes 4, and 0.25 / 127 = 2^-8.99 becomes 2^-8.
  desc.ue8m0 = true;
  coded = Quantize(desc, x);
  EXPECT_EQ(static_cast<uint8_t>(coded.scales.bytes()[0]), 127 + 2);
  EXPECT_EQ(static_cast<uint8_t>(coded.scales.bytes()[1]), 127 - 8);
  const float of_powers[] = {0, -112, 25, 0, -64, 0};
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(coded.codes.At(i), of_powers[i]) << i;
}

TEST_P(GroupQuantTest, NoScaleIsInfiniteOrZero) {
  const Array x =
      Array::Floats(DType::kF32, {6, 2},
                    {0, 0, 1, kInfinity, kNan, 1, 1e-45f, 0, -3.4e38f, 1, 1e-38f, -kInfinity});
  for (const DType codes : {DType::kF8E4M3, DType::kI8}) {
    for (const bool ue8m0 : {false, true}) {
      const Coded coded = Quantize({.codes = codes, .ue8m0 = ue8m0, .width = 2, .group = 2}, x);
      for (size_t row = 0; row < 6; ++row) {
        const bool bad = row == 1 || row == 2 || row == 5;
        const float scale = ue8m0 ? Ue8m0ToF32(static_cast<uint8_t>(coded.scales.bytes()[row]))
                                  : coded.scales.At(row);
        EXPECT_EQ(std::isnan(scale), bad) << row;
        EXPECT_TRUE(bad || (scale > 0.0f && std::isfinite(scale))) << row;
        for (size_t i = 2 * row; i < 2 * row + 2; ++i) {
          const float code = coded.codes.At(i);
          EXPECT_EQ(std::isnan(code), bad && codes == DType::kF8E4M3) << i;
          EXPECT_TRUE(!bad || std::isnan(code) || code == 0.0f) << i;
        }
      }
    }
  }
}

TEST(Ue8m0, IsTheSmallestPowerOfTwoThatIsNotBelow) {
  EXPECT_EQ(Ue8m0Of(1.0f), 127);
  EXPECT_EQ(Ue8m0Of(std::nextafter(1.0f, 2.0f)), 128);
  EXPECT_EQ(Ue8m0Of(std::nextafter(1.0f, 0.0f)), 127);
  EXPECT_EQ(Ue8m0Of(1e-45f), 1);
  EXPECT_EQ(Ue8m0Of(kNan), 255);
  for (const uint8_t exponent : {1, 100, 127, 128, 254}) {
    EXPECT_EQ(Ue8m0ToF32(exponent), std::ldexp(1.0f, exponent - 127));
    EXPECT_EQ(Ue8m0Of(Ue8m0ToF32(exponent)), exponent);
  }
  EXPECT_TRUE(std::isnan(Ue8m0ToF32(255)));
}

// What the op makes of a gate is what it makes of rows that another op has left in memory.
TEST_P(GroupQuantTest, AGateInTheSameCallChangesNoBit) {
  TestNoise noise(1);
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const Activation kind : kActivations) {
      const int64_t width = kind == Activation::kSilu ? 300 : 48;
      Array gate_up(type, {3, 2 * width}), made(type, {3, width});
      noise.Fill(gate_up, 3.0f);
      ASSERT_TRUE(RefGatedActivation(*stream_,
                                     {.kind = kind,
                                      .activation = type,
                                      .width = width,
                                      .gate_scale = 0.5f,
                                      .out_scale = 2},
                                     {.gate_up = gate_up.tensor(), .out = made.tensor()})
                      .ok());
      const Coded two = Quantize({.activation = type, .width = width}, made);
      const Coded one = Quantize({.activation = type,
                                  .width = width,
                                  .gated = true,
                                  .kind = kind,
                                  .gate_scale = 0.5f,
                                  .out_scale = 2},
                                 gate_up);
      EXPECT_EQ(one.codes, two.codes) << Name(kind) << " in " << Name(type);
      EXPECT_EQ(one.scales, two.scales) << Name(kind) << " in " << Name(type);
    }
  }
}

TEST_P(GroupQuantTest, ANormsCodesAreThoseOfItsRows) {
  constexpr int64_t kHidden = 300, kTokens = 3;
  TestNoise noise(2);
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const NormKind kind : {NormKind::kRms, NormKind::kLayer, NormKind::kNone}) {
      Array x(type, {kTokens, kHidden}), weight(DType::kF32, {kHidden});
      noise.Fill(x, 5.0f);
      noise.Fill(weight);
      const Array out = x;
      Norm::Desc desc{.kind = kind, .activation = type, .hidden = kHidden};
      Norm::Args args{.x = x.tensor()};
      if (kind != NormKind::kNone) args.weight = weight.tensor();
      args.out = out.tensor();
      ASSERT_TRUE(RefNorm(*stream_, desc, args).ok());
      const Coded expected = Quantize({.activation = type, .width = kHidden}, out);
      for (const RowForm form : {RowForm::kCodes, RowForm::kBoth}) {
        desc.form = form;
        const Array codes(DType::kF8E4M3, {kTokens, kHidden}), scales(DType::kF32, {3, kTokens});
        const Array again = x;
        args.out = form == RowForm::kBoth ? again.tensor() : Tensor();
        args.codes = codes.tensor();
        args.code_scales = scales.tensor();
        const Status status = Run<Norm>(desc, args);
        ASSERT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(codes, expected.codes) << desc.ToString();
        EXPECT_EQ(scales, expected.scales) << desc.ToString();
        if (form == RowForm::kBoth) {
          EXPECT_EQ(again, out) << desc.ToString();
        }
      }
    }
  }
}

TEST_P(GroupQuantTest, AProductOfCodesIsThatOfTheRowsTheyAreMadeOf) {
  constexpr int64_t kRows = 3, kN = 130, kK = 200;
  TestNoise noise(3);
  Array x(DType::kBF16, {kRows, kK}), w(DType::kF8E4M3, {kN, kK}), scales(DType::kF32, {2, 2});
  noise.Fill(x, 3.0f);
  noise.Fill(w, 100.0f);
  noise.Fill(scales, 0.01f);
  const Linear::Desc desc{.weight = DType::kF8E4M3,
                          .weight_scales = WeightScales::kBlock,
                          .x_scales = ActivationScales::kBlock,
                          .activation = DType::kBF16,
                          .n = kN,
                          .k = kK};
  PackedWeight weight = {w.tensor(), DType::kF8E4M3, LayoutId::kRowMajor, kN, kK};
  weight.scales = scales.tensor();
  const Array expected(DType::kBF16, {kRows, kN}), out(DType::kBF16, {kRows, kN});
  Linear::Args args{.x = x.tensor(), .weight = &weight, .out = expected.tensor()};
  ASSERT_TRUE(RefLinear(*stream_, desc, args).ok());
  const Coded coded = Quantize({.activation = DType::kBF16, .width = kK}, x);
  args.x = coded.codes.tensor();
  args.out = out.tensor();
  args.x_scales = coded.scales.tensor();
  const Status status = RefLinear(*stream_, desc, args);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(out, expected);
  // An implementation that takes none refuses them, and so does a rule without such scales.
  EXPECT_FALSE(CheckLinearArgs(desc, args, LayoutId::kRowMajor).ok());
  Linear::Desc by_row = desc;
  by_row.x_scales = ActivationScales::kRow;
  EXPECT_FALSE(CheckLinearArgs(by_row, args, LayoutId::kRowMajor, true).ok());
  args.x_scales = coded.scales.tensor().Columns(0, 2);
  EXPECT_FALSE(CheckLinearArgs(desc, args, LayoutId::kRowMajor, true).ok());
}

TEST_P(GroupQuantTest, RowsThatAPartLacksAreNeitherReadNorWritten) {
  for (const bool gated : {false, true}) {
    const GroupQuant::Desc desc{.width = 16, .group = 16, .gated = gated, .parts = 3};
    Array x(DType::kF32, {12, gated ? 32 : 16});
    TestNoise(4).Fill(x);
    const Coded all = Quantize(desc, x, Array::Ints({4, 4, 4}));
    const Coded some = Quantize(desc, x, Array::Ints({0, 3, 4}));
    for (size_t row = 0; row < 12; ++row) {
      const bool there = row >= 4 && row != 7;
      const auto is_there = [&](const Array& got, const Array& expected, size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i)
          EXPECT_EQ(got.bytes()[i], there ? expected.bytes()[i] : std::byte{0x55}) << row;
      };
      is_there(some.codes, all.codes, 16 * row, 16 * row + 16);
      is_there(some.scales, all.scales, 4 * row, 4 * row + 4);
    }
  }
}

TEST_P(GroupQuantTest, DescriptorsThatMakeNoSenseAreDeclined) {
  const auto why = [&](const GroupQuant::Desc& desc) {
    const auto bound = Bind<GroupQuant>(device_->ops(), desc);
    return bound.ok() ? std::string() : bound.status().message();
  };
  EXPECT_THAT(why({.width = 0}), HasSubstr("width is 0"));
  EXPECT_THAT(why({.width = 8, .group = 0}), HasSubstr("groups of 0 elements"));
  EXPECT_THAT(why({.codes = DType::kF16, .width = 8}), HasSubstr("codes in F16"));
  EXPECT_THAT(why({.activation = DType::kI8, .width = 8}), HasSubstr("activations of I8"));
  EXPECT_THAT(why({.width = 8, .parts = -1}), HasSubstr("-1 parts"));
  EXPECT_THAT(why({.width = 8, .gated = true, .out_scale = kNan}), HasSubstr("scales are"));
}

// Before anything is computed.
TEST_P(GroupQuantTest, WrongShapesAreRefused) {
  const GroupQuant::Desc desc{.width = 8, .group = 4, .parts = 2};
  const Array x(DType::kF32, {4, 8}), codes(DType::kF8E4M3, {4, 8}), scales(DType::kF32, {2, 4});
  const Array counts = Array::Ints({2, 1}), many = Array::Ints({2, 3});
  const GroupQuant::Args good{.x = x.tensor(),
                              .counts = counts.tensor(),
                              .codes = codes.tensor(),
                              .scales = scales.tensor()};
  ASSERT_TRUE(Run<GroupQuant>(desc, good).ok());
  const auto refused = [&](const char* why, const auto& change) {
    GroupQuant::Args args = good;
    change(args);
    EXPECT_THAT(Run<GroupQuant>(desc, args).message(), HasSubstr(why));
  };
  refused("x", [](GroupQuant::Args& a) { a.x = {}; });
  refused("x", [](GroupQuant::Args& a) { a.x.rank = 0; });
  refused("codes", [](GroupQuant::Args& a) { a.codes.dtype = DType::kI8; });
  refused("scales", [](GroupQuant::Args& a) { a.scales = a.scales.Rows(0, 1); });
  refused("scales", [](GroupQuant::Args& a) { a.scales.dtype = DType::kU8; });
  refused("counts", [](GroupQuant::Args& a) { a.counts = {}; });
  refused("overlap", [](GroupQuant::Args& a) { a.codes.data = a.x.data; });
  refused("counts[1] is 3, outside the range from 0 to 2",
          [&](GroupQuant::Args& a) { a.counts = many.tensor(); });
  refused("3 rows are no 2 equal parts", [](GroupQuant::Args& a) {
    a.x = a.x.Rows(0, 3);
    a.codes = a.codes.Rows(0, 3);
    a.scales = a.scales.Columns(0, 3);
  });
}

}  // namespace
}  // namespace sluice::ops
