#include "ops/norm.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "ops/op_fixture.h"

namespace sluice::ops {
namespace {

using ::testing::HasSubstr;

class NormTest : public OpTest {};
SLUICE_FOR_EACH_INSTRUCTION_SET(NormTest);

TEST_P(NormTest, RmsOfAHandComputedRow) {
  Norm::Desc desc{.hidden = 4, .eps = 1e-30f};
  Array x = Array::Floats(DType::kF32, {1, 4}, {1, -2, 2, 4});  // mean square 25 / 4
  Array weight = Array::Floats(DType::kF32, {4}, {1, 2, -1, 0.5f});
  Array out(DType::kF32, {1, 4});
  ASSERT_TRUE(
      Run<Norm>(desc, {.x = x.tensor(), .weight = weight.tensor(), .out = out.tensor()}).ok());
  const float expected[] = {0.4f, -1.6f, -0.8f, 0.8f};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(out.At(i), expected[i], 1e-6f);
}

TEST_P(NormTest, LayerOfAHandComputedRow) {
  Norm::Desc desc{.kind = NormKind::kLayer, .hidden = 4, .eps = 1e-30f, .bias = true};
  Array x = Array::Floats(DType::kF32, {1, 4}, {11, 13, 13, 11});  // mean 12, deviation 1
  Array weight = Array::Floats(DType::kF32, {4}, {1, 2, 3, 4});
  Array bias = Array::Floats(DType::kF32, {4}, {0, 10, 20, 30});
  Array out(DType::kF32, {1, 4});
  ASSERT_TRUE(
      Run<Norm>(
          desc,
          {.x = x.tensor(), .weight = weight.tensor(), .bias = bias.tensor(), .out = out.tensor()})
          .ok());
  const float expected[] = {-1, 12, 23, 26};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(out.At(i), expected[i], 1e-5f);
}

// Squares of numbers far from zero need more digits than F32 has; those of what is left after the
// mean do not. So the row is centred first, and variance and output are of the centred values.
TEST_P(NormTest, VarianceAndOutputAreOfTheCentredValues) {
  constexpr int64_t kHidden = 576;
  Array x(DType::kF32, {1, kHidden}), weight(DType::kF32, {kHidden}), out = x;
  weight.Fill(1.0f);
  for (int i = 0; i < kHidden; ++i) x.Set(i, 4096.0f + (i % 2 == 0 ? 1.0f : -1.0f));
  ASSERT_TRUE(Run<Norm>({.kind = NormKind::kLayer, .hidden = kHidden, .eps = 1e-30f},
                        {.x = x.tensor(), .weight = weight.tensor(), .out = out.tensor()})
                  .ok());
  for (int i = 0; i < kHidden; ++i) EXPECT_NEAR(out.At(i), i % 2 == 0 ? 1 : -1, 1e-6f) << i;
}

TEST_P(NormTest, MatchesDoublePrecisionOnOddWidthsAndTypes) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
      for (int64_t hidden : {1, 3, 15, 17, 576, 1000}) {
        TestNoise noise(hidden);
        Norm::Desc desc{.kind = kind, .activation = dtype, .hidden = hidden};
        Array x(dtype, {3, hidden}), weight(DType::kF32, {hidden}), out(dtype, {3, hidden});
        noise.Fill(x, 3.0f);
        noise.Fill(weight);
        ASSERT_TRUE(
            Run<Norm>(desc, {.x = x.tensor(), .weight = weight.tensor(), .out = out.tensor()})
                .ok());
        for (int t = 0; t < 3; ++t) {
          double mean = 0, square = 0;
          for (int i = 0; i < hidden; ++i) mean += x.At(t * hidden + i) / hidden;
          if (kind == NormKind::kRms) mean = 0;
          for (int i = 0; i < hidden; ++i) square += std::pow(x.At(t * hidden + i) - mean, 2);
          const double scale = 1 / std::sqrt(square / hidden + 1e-5f);
          for (int i = 0; i < hidden; ++i) {
            const double expected = (x.At(t * hidden + i) - mean) * scale * weight.At(i);
            const double step = dtype == DType::kF32 ? 2e-6 : dtype == DType::kF16 ? 6e-4 : 5e-3;
            EXPECT_NEAR(out.At(t * hidden + i), expected, step * (1 + std::abs(expected)));
          }
        }
      }
    }
  }
}

TEST_P(NormTest, AddUpdatesTheResidualFirstAndOutMayBeX) {
  const int64_t hidden = 40;
  TestNoise noise(7);
  Array x(DType::kF32, {2, hidden}), residual(DType::kF32, {2, hidden});
  Array weight(DType::kF32, {hidden}), sum(DType::kF32, {2, hidden});
  noise.Fill(x);
  noise.Fill(residual);
  noise.Fill(weight);
  for (int i = 0; i < 2 * hidden; ++i) sum.Set(i, x.At(i) + residual.At(i));
  Array expected(DType::kF32, {2, hidden});
  ASSERT_TRUE(Run<Norm>({.hidden = hidden},
                        {.x = sum.tensor(), .weight = weight.tensor(), .out = expected.tensor()})
                  .ok());
  ASSERT_TRUE(Run<Norm>({.hidden = hidden, .add = true}, {.x = x.tensor(),
                                                          .residual = residual.tensor(),
                                                          .weight = weight.tensor(),
                                                          .out = x.tensor()})
                  .ok());
  EXPECT_EQ(residual, sum);
  EXPECT_EQ(x, expected);
}

TEST_P(NormTest, TheSumIsScaledBeforeItIsKeptAndNormalized) {
  const int64_t hidden = 40;
  TestNoise noise(9);
  Array x(DType::kF32, {2, hidden}), residual(DType::kF32, {2, hidden});
  Array weight(DType::kF32, {hidden}), scale(DType::kF32, {1}), sum(DType::kF32, {2, hidden});
  noise.Fill(x);
  noise.Fill(residual);
  noise.Fill(weight);
  scale.Set(0, 0.37f);
  for (int i = 0; i < 2 * hidden; ++i) sum.Set(i, (x.At(i) + residual.At(i)) * 0.37f);
  Array expected(DType::kF32, {2, hidden}), out(DType::kF32, {2, hidden});
  ASSERT_TRUE(Run<Norm>({.hidden = hidden},
                        {.x = sum.tensor(), .weight = weight.tensor(), .out = expected.tensor()})
                  .ok());
  ASSERT_TRUE(
      Run<Norm>({.hidden = hidden, .add = true, .scaled = true}, {.x = x.tensor(),
                                                                  .residual = residual.tensor(),
                                                                  .weight = weight.tensor(),
                                                                  .scale = scale.tensor(),
                                                                  .out = out.tensor()})
          .ok());
  EXPECT_EQ(residual, sum);
  EXPECT_EQ(out, expected);
}

TEST_P(NormTest, RowsMayBeStridedAndWhatLiesBetweenIsUntouched) {
  const int64_t hidden = 20, stride = 33;
  TestNoise noise(8);
  Array wide(DType::kF32, {3, stride}), weight(DType::kF32, {hidden});
  noise.Fill(wide);
  noise.Fill(weight);
  const Array before = wide;
  Tensor x = wide.tensor();
  x.dims[1] = hidden;
  ASSERT_TRUE(Run<Norm>({.hidden = hidden}, {.x = x, .weight = weight.tensor(), .out = x}).ok());
  for (int t = 0; t < 3; ++t) {
    EXPECT_NE(wide.At(t * stride), before.At(t * stride));
    for (int i = hidden; i < stride; ++i)
      EXPECT_EQ(wide.At(t * stride + i), before.At(t * stride + i));
  }
}

TEST_P(NormTest, AnEmptyBatchIsNothingToDo) {
  Array weight(DType::kF32, {8});
  Tensor none = Array(DType::kF32, {0, 8}).tensor();
  none.data = nullptr;
  EXPECT_TRUE(Run<Norm>({.hidden = 8}, {.x = none, .weight = weight.tensor(), .out = none}).ok());
}

TEST_P(NormTest, ZeroRowsStayFiniteAndANanSpoilsItsOwnRowOnly) {
  Array x(DType::kF32, {3, 8}), weight(DType::kF32, {8}), out(DType::kF32, {3, 8});
  weight.Fill(1.0f);
  x.Set(8, std::numeric_limits<float>::quiet_NaN());
  x.Set(16, 1.0f);
  ASSERT_TRUE(
      Run<Norm>({.hidden = 8}, {.x = x.tensor(), .weight = weight.tensor(), .out = out.tensor()})
          .ok());
  EXPECT_EQ(out.At(0), 0.0f);
  EXPECT_TRUE(std::isnan(out.At(8)));
  EXPECT_NEAR(out.At(16), std::sqrt(8.0f), 1e-3f);
}

TEST_P(NormTest, WrongArgumentsAreRefusedBeforeAnythingIsWritten) {
  Array x(DType::kF32, {2, 8}), weight(DType::kF32, {8}), out(DType::kF32, {2, 8});
  x.Fill(1.0f);
  const Array untouched = out;
  const Norm::Args good{.x = x.tensor(), .weight = weight.tensor(), .out = out.tensor()};
  const auto refused = [&](Norm::Args args, const char* why, Norm::Desc desc = {.hidden = 8}) {
    const Status status = Run<Norm>(desc, args);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << why;
    EXPECT_THAT(status.message(), HasSubstr(why));
    EXPECT_EQ(out, untouched);
  };
  Norm::Args args = good;
  args.weight = Tensor();
  refused(args, "weight is missing");
  args = good;
  args.x.dtype = DType::kF16;
  refused(args, "x is F16 [2, 8], expected F32");
  args = good;
  args.out.dims[0] = 1;
  refused(args, "out is F32 [1, 8]");
  args = good;
  args.x.data = nullptr;
  refused(args, "x is null");
  args = good;
  args.out = args.x;
  args.out.data += 4;
  refused(args, "overlap");
  args = good;
  args.weight.device = {device::DeviceKind::kCuda, 0};
  refused(args, "weight lies on cuda:0");
  args = good;
  args.bias = weight.tensor();
  refused(args, "bias is given");
  args = good;
  args.residual = x.tensor();
  refused(args, "overlap", {.hidden = 8, .add = true});
}

TEST_P(NormTest, UnsupportedDescriptorsSayWhy) {
  const auto reason = [&](Norm::Desc desc) {
    return Bind<Norm>(device_->ops(), desc).status().message();
  };
  EXPECT_THAT(reason({.hidden = 8, .eps = 0.0f}), HasSubstr("eps is 0"));
  EXPECT_THAT(reason({.hidden = 0}), HasSubstr("hidden is 0"));
  EXPECT_THAT(reason({.activation = DType::kI8, .hidden = 8}), HasSubstr("I8"));
  EXPECT_THAT(reason({.hidden = 8, .bias = true}), HasSubstr("bias"));
  EXPECT_THAT(reason({.hidden = 8, .scaled = true}), HasSubstr("scaled"));
}

TEST_P(NormTest, QkNormWorksInPlaceOnQAndKOfStridedRowsAndLeavesV) {
  for (int head_dim : {3, 16, 64, 80}) {
    const QkNorm::Desc desc{.q_heads = 3, .kv_heads = 1, .head_dim = head_dim, .eps = 1e-6f};
    const int width = 5 * head_dim, stride = width + 7;
    TestNoise noise(head_dim);
    Array wide(DType::kF32, {2, stride});
    Array q_weight(DType::kF32, {head_dim}), k_weight(DType::kF32, {head_dim});
    noise.Fill(wide);
    noise.Fill(q_weight);
    noise.Fill(k_weight);
    const Array before = wide;
    Tensor qkv = wide.tensor();
    qkv.dims[1] = width;
    ASSERT_TRUE(
        Run<QkNorm>(desc,
                    {.qkv = qkv, .q_weight = q_weight.tensor(), .k_weight = k_weight.tensor()})
            .ok());
    for (int t = 0; t < 2; ++t) {
      for (int h = 0; h < 5; ++h) {
        const int first = t * stride + h * head_dim;
        double square = 0;
        for (int i = 0; i < head_dim; ++i) square += std::pow(before.At(first + i), 2);
        const double scale = 1 / std::sqrt(square / head_dim + 1e-6);
        for (int i = 0; i < head_dim; ++i) {
          const double value = before.At(first + i);
          const Array& weight = h < 3 ? q_weight : k_weight;
          if (h == 4) {
            EXPECT_EQ(wide.At(first + i), value) << "V changed";
          } else {
            EXPECT_NEAR(wide.At(first + i), value * scale * weight.At(i), 3e-6);
          }
        }
      }
      for (int i = width; i < stride; ++i)
        EXPECT_EQ(wide.At(t * stride + i), before.At(t * stride + i));
    }
  }
}

}  // namespace
}  // namespace sluice::ops
