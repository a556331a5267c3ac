#include "ops/grouped_linear.h"

#include <gmock/gmock.h>

#include "ops/formats/rows.h"
#include "ops/op_fixture.h"

namespace sluice::ops {
namespace {

using ::testing::HasSubstr;

constexpr float kLeft = -77.0f;  // what was there before

class GroupedLinearTest : public OpTest {
 protected:
  // The stack as the chosen implementation wants it.
  void Pack(const GroupedLinear::Desc& desc, const Array& rows) {
    auto bound = Bind<GroupedLinear>(device_->ops(), desc);
    ASSERT_TRUE(bound.ok()) << bound.status().message();
    const Linear::Desc stacked = desc.Stacked();
    const LinearPacking& packing = PackingOf(device_->ops(), bound->name());
    weight_ = {rows.tensor(), stacked.weight, packing.layout, stacked.n, stacked.k};
    if (packing.layout == LayoutId::kRowMajor) return;
    packed_ = Array(DType::kU8, {static_cast<int64_t>(packing.packed_bytes(stacked))});
    const std::span<const std::byte> bytes(
        rows.bytes().data(), RowBytes(desc.each.weight, static_cast<size_t>(stacked.k)) *
                                 static_cast<size_t>(stacked.n));
    ASSERT_TRUE(packing.pack(stacked, 0, bytes, {packed_.tensor().data, packed_.Count()}).ok());
    weight_.data = packed_.tensor();
  }
  Array packed_;
  PackedWeight weight_;
};
SLUICE_FOR_EACH_INSTRUCTION_SET(GroupedLinearTest);

TEST_P(GroupedLinearTest, EachPlaceMeetsItsExpertAndWhatNoneHasIsLeftAlone) {
  GroupedLinear::Desc desc = {.each = {.n = 16, .k = 2}, .experts = 3};
  Array w(DType::kF32, {48, 2});
  for (size_t i = 0; i < w.Count(); ++i) w.Set(i, static_cast<float>(i));
  Pack(desc, w);
  Array x = Array::Floats(DType::kF32, {2, 2}, {1, 0, 0, 10});
  // Expert 1 has nothing; the last place is nobody's, and its token is not there.
  Array tokens = Array::Ints({1, 0, 1, 2000000000}), starts = Array::Ints({0, 1, 1, 3});
  Array out(DType::kF32, {4, 16});
  out.Fill(kLeft);
  const GroupedLinear::Args args = {.x = x.tensor(),
                                    .tokens = tokens.tensor(),
                                    .starts = starts.tensor(),
                                    .weight = &weight_,
                                    .out = out.tensor()};
  ASSERT_TRUE(Run<GroupedLinear>(desc, args).ok());
  for (size_t c = 0; c < 16; ++c) {
    EXPECT_EQ(out.At(c), w.At(2 * c + 1) * 10) << c;
    EXPECT_EQ(out.At(16 + c), w.At(64 + 2 * c)) << c;
    EXPECT_EQ(out.At(32 + c), w.At(64 + 2 * c + 1) * 10) << c;
    EXPECT_EQ(out.At(48 + c), kLeft) << c;
  }
}

TEST_P(GroupedLinearTest, EachExpertHasABiasOfItsOwn) {
  GroupedLinear::Desc desc = {.each = {.n = 16, .k = 2, .bias = true}, .experts = 3};
  Array w(DType::kF32, {48, 2});
  w.Fill(1.0f);
  Pack(desc, w);
  Array x = Array::Floats(DType::kF32, {2, 2}, {1, 2, 3, 4}), starts = Array::Ints({0, 1, 1, 2});
  Array bias(DType::kF32, {3, 20}), out(DType::kF32, {2, 16});
  for (size_t i = 0; i < bias.Count(); ++i) bias.Set(i, static_cast<float>(100 * i));
  GroupedLinear::Args args = {
      .x = x.tensor(), .starts = starts.tensor(), .weight = &weight_, .out = out.tensor()};
  EXPECT_THAT(Run<GroupedLinear>(desc, args).message(), HasSubstr("bias"));
  args.bias = bias.tensor().Columns(0, 16);
  ASSERT_TRUE(Run<GroupedLinear>(desc, args).ok());
  for (size_t c = 0; c < 16; ++c) {
    EXPECT_EQ(out.At(c), 3 + bias.At(c)) << c;
    EXPECT_EQ(out.At(16 + c), 7 + bias.At(40 + c)) << c;
  }
}

// Whoever shares its expert, a row has the bits that linear gives it alone.
TEST_P(GroupedLinearTest, ARowHasTheBitsOfLinearWhoeverSharesItsExpert) {
  for (const DType format : {DType::kF32, DType::kBF16, DType::kQ8_0, DType::kQ4_1}) {
    const GroupedLinear::Desc desc = {.each = {.weight = format, .n = 48, .k = 64}, .experts = 4};
    TestNoise noise(7);
    Array w(format, {4 * 48, 64});
    std::vector<float> row(64);
    for (int64_t r = 0; r < 4 * 48; ++r) {
      for (float& value : row) value = noise.Value();
      const size_t bytes = RowBytes(format, 64);
      QuantizeRow(format, row, w.tensor().data + static_cast<size_t>(r) * bytes);
    }
    constexpr int kRows = 150;
    Array x(DType::kF32, {kRows, 64});
    noise.Fill(x);
    Pack(desc, w);
    // All rows with expert 2, then one row each in an expert of its own.
    Array many(DType::kF32, {kRows, 48}), alone(DType::kF32, {1, 48});
    Array starts = Array::Ints({0, 0, 0, kRows, kRows}), one = Array::Ints({0, 0, 0, 1, 1});
    ASSERT_TRUE(
        Run<GroupedLinear>(
            desc,
            {.x = x.tensor(), .starts = starts.tensor(), .weight = &weight_, .out = many.tensor()})
            .ok());
    for (const int64_t r : {0, 1, 77, kRows - 1}) {
      Array token = Array::Ints({static_cast<int32_t>(r)});
      ASSERT_TRUE(Run<GroupedLinear>(desc, {.x = x.tensor(),
                                            .tokens = token.tensor(),
                                            .starts = one.tensor(),
                                            .weight = &weight_,
                                            .out = alone.tensor()})
                      .ok());
      for (size_t c = 0; c < 48; ++c) {
        ASSERT_EQ(alone.At(c), many.At(static_cast<size_t>(r) * 48 + c))
            << Name(format) << " row " << r << " column " << c;
      }
    }
  }
}

TEST_P(GroupedLinearTest, ShapesAndStartsAreChecked) {
  GroupedLinear::Desc desc = {.each = {.n = 7, .k = 2}, .experts = 2};
  Array w(DType::kF32, {14, 2}), x(DType::kF32, {2, 2}), out(DType::kF32, {2, 7});
  Pack(desc, w);  // rows as they are: seven are no whole group of any kernel
  EXPECT_EQ(weight_.layout, LayoutId::kRowMajor);
  Array starts = Array::Ints({0, 2, 1});
  GroupedLinear::Args args = {
      .x = x.tensor(), .starts = starts.tensor(), .weight = &weight_, .out = out.tensor()};
  EXPECT_THAT(Run<GroupedLinear>(desc, args).message(), HasSubstr("starts[2] is 1"));
  starts = Array::Ints({0, 1, 3});
  args.starts = starts.tensor();
  EXPECT_THAT(Run<GroupedLinear>(desc, args).message(), HasSubstr("starts[2] is 3"));
  starts = Array::Ints({0, 1, 2});
  Array tokens = Array::Ints({0, 2});
  args.starts = starts.tensor();
  args.tokens = tokens.tensor();
  EXPECT_THAT(Run<GroupedLinear>(desc, args).message(),
              HasSubstr("tokens[1] is 2, outside the range from 0 to 1"));
  weight_.n = 7;
  EXPECT_THAT(Run<GroupedLinear>(desc, args).message(), HasSubstr("the weight given is not"));
  desc.each.residual = true;
  EXPECT_THAT(RefGroupedLinearSupports(desc, {}).reason, HasSubstr("a residual"));
}

}  // namespace
}  // namespace sluice::ops
