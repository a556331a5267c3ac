#include "ops/activation.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "ops/op_fixture.h"

namespace sluice::ops {
namespace {

using ::testing::HasSubstr;

class ActivationTest : public OpTest {};
SLUICE_FOR_EACH_INSTRUCTION_SET(ActivationTest);

// By the textbook, in long double, whose digits outlast the cancellation down to x = -8.
double Expected(Activation kind, double x) {
  const long double y = x;
  if (kind == Activation::kSilu) return static_cast<double>(y / (1 + std::exp(-y)));
  if (kind == Activation::kGeluErf)
    return static_cast<double>(0.5L * y * (1 + std::erf(y / std::sqrt(2.0L))));
  if (kind == Activation::kReluSquared) return static_cast<double>(y > 0 ? y * y : 0);
  if (kind == Activation::kClampedSwiglu) {  // beside 1
    const long double gate = std::min(y, 7.0L);
    return static_cast<double>(2 * gate / (1 + std::exp(-static_cast<long double>(1.702f) * gate)));
  }
  const long double u = std::sqrt(2 / 3.14159265358979323846L) * (y + 0.044715L * y * y * y);
  return static_cast<double>(0.5L * y * (1 + std::tanh(u)));
}

TEST_P(ActivationTest, TheFirstHalfIsTheGate) {
  Array in = Array::Floats(DType::kF32, {1, 4}, {0.0f, 1.0f, 5.0f, 2.0f}), out(DType::kF32, {1, 2});
  ASSERT_TRUE(
      Run<GatedActivation>({.width = 2}, {.gate_up = in.tensor(), .out = out.tensor()}).ok());
  EXPECT_EQ(out.At(0), 0.0f);  // silu(0) * 5; the other order would give more than 0
  EXPECT_NEAR(out.At(1), 2.0f * 0.7310586f, 1e-6f);
}

TEST_P(ActivationTest, TheGateAndTheProductAreScaled) {
  Array in = Array::Floats(DType::kF32, {1, 4}, {-1.0f, 4.0f, 5.0f, 2.0f}),
        out(DType::kF32, {1, 2});
  ASSERT_TRUE(Run<GatedActivation>({.width = 2, .gate_scale = 0.5f, .out_scale = 3.0f},
                                   {.gate_up = in.tensor(), .out = out.tensor()})
                  .ok());
  EXPECT_NEAR(out.At(0), 15.0 * Expected(Activation::kSilu, -0.5), 1e-5);
  EXPECT_NEAR(out.At(1), 6.0 * Expected(Activation::kSilu, 2.0), 1e-5);
}

TEST_P(ActivationTest, EveryKindIsAccurateOverTheWholeRange) {
  const int width = 4001;
  for (Activation kind : kActivations) {
    Array in(DType::kF32, {1, 2 * width}), out(DType::kF32, {1, width});
    for (int i = 0; i < width; ++i) {
      in.Set(i, static_cast<float>(i - 2000) * 0.06f);
      in.Set(width + i, 1.0f);
    }
    ASSERT_TRUE(Run<GatedActivation>({.kind = kind, .width = width},
                                     {.gate_up = in.tensor(), .out = out.tensor()})
                    .ok());
    for (int i = 0; i < width; ++i) {
      const double expected = Expected(kind, in.At(i));
      // The cube in gelu_tanh's exponent makes relative errors grow with it.
      const double cube = kind == Activation::kGeluTanh ? std::abs(std::pow(in.At(i), 3)) : 0;
      // So do those of an exponent that is a product.
      const double slope = kind == Activation::kClampedSwiglu ? 0.1 * std::abs(in.At(i)) : 0;
      EXPECT_NEAR(out.At(i), expected, 5e-7 * std::abs(expected) * (1 + cube + slope) + 1e-18)
          << in.At(i);
    }
  }
}

TEST_P(ActivationTest, TheClampedSwigluClampsBothHalves) {
  Array in = Array::Floats(DType::kF32, {1, 6}, {9.0f, 7.0f, -9.0f, 20.0f, -20.0f, 0.5f});
  Array out(DType::kF32, {1, 3});
  ASSERT_TRUE(Run<GatedActivation>({.kind = Activation::kClampedSwiglu, .width = 3},
                                   {.gate_up = in.tensor(), .out = out.tensor()})
                  .ok());
  const auto share = [](double gate) { return gate / (1 + std::exp(-1.702 * gate)); };
  EXPECT_NEAR(out.At(0), share(7) * 8, 1e-4);
  EXPECT_NEAR(out.At(1), share(7) * -6, 1e-4);
  EXPECT_NEAR(out.At(2), share(-9) * 1.5, 1e-10);  // a gate is clamped above alone
}

TEST_P(ActivationTest, APlainOneIsAGatedOneWhoseGateIsOpen) {
  for (Activation kind : kPlainActivations) {
    Array x(DType::kF32, {3, 50}), gated(DType::kF32, {3, 90}), out(DType::kF32, {3, 45});
    TestNoise noise(4);
    noise.Fill(x, 4.0f);
    gated.Fill(1.0f);
    const Array before = x;
    for (int t = 0; t < 3; ++t) {
      for (int i = 0; i < 45; ++i) gated.Set(t * 90 + i, x.At(t * 50 + i));
    }
    Tensor rows = x.tensor();
    rows.dims[1] = 45;
    ASSERT_TRUE(Run<PlainActivation>({.kind = kind, .width = 45}, {.x = rows}).ok());
    ASSERT_TRUE(Run<GatedActivation>({.kind = kind, .width = 45},
                                     {.gate_up = gated.tensor(), .out = out.tensor()})
                    .ok());
    for (int t = 0; t < 3; ++t) {
      for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(x.At(t * 50 + i), i < 45 ? out.At(t * 45 + i) : before.At(t * 50 + i));
      }
    }
  }
}

TEST_P(ActivationTest, AloneIsAsBesideAnUpOfOnes) {
  TestNoise noise(4);
  for (Activation kind : kPlainActivations) {
    Array x(DType::kF32, {2, 37}), gate_up(DType::kF32, {2, 74}), out(DType::kF32, {2, 37});
    noise.Fill(x);
    x.Set(3, NAN);
    for (int i = 0; i < 74; ++i) {
      gate_up.Set(i / 37 * 74 + i % 37, x.At(i));
      gate_up.Set(i / 37 * 74 + 37 + i % 37, 1.0f);
    }
    ASSERT_TRUE(Run<GatedActivation>({.kind = kind, .width = 37},
                                     {.gate_up = gate_up.tensor(), .out = out.tensor()})
                    .ok());
    ASSERT_TRUE(Run<PlainActivation>({.kind = kind, .width = 37}, {.x = x.tensor()}).ok());
    EXPECT_TRUE(std::isnan(x.At(3))) << Name(kind);
    for (int i = 0; i < 74; ++i) {
      if (i == 3) continue;
      EXPECT_EQ(x.At(i), out.At(i)) << Name(kind) << ' ' << i;
    }
  }
}

TEST_P(ActivationTest, HalfTypesRoundOnce) {
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    Array in = Array::Floats(dtype, {1, 4}, {1.5f, -0.75f, 0.3f, 2.0f}), out(dtype, {1, 2});
    ASSERT_TRUE(Run<GatedActivation>({.activation = dtype, .width = 2},
                                     {.gate_up = in.tensor(), .out = out.tensor()})
                    .ok());
    for (int i = 0; i < 2; ++i) {
      const double expected = Expected(Activation::kSilu, in.At(i)) * in.At(2 + i);
      EXPECT_EQ(out.At(i), RoundTo(dtype, static_cast<float>(expected)));
    }
  }
}

TEST_P(ActivationTest, RowsAreStridedAndTheEmptyBatchIsFine) {
  TestNoise noise(3);
  Array wide(DType::kF32, {3, 50}), out(DType::kF32, {3, 21}), dense(DType::kF32, {3, 42});
  noise.Fill(wide);
  for (int t = 0; t < 3; ++t) {
    for (int i = 0; i < 42; ++i) dense.Set(t * 42 + i, wide.At(t * 50 + i));
  }
  Tensor in = wide.tensor();
  in.dims[1] = 42;
  ASSERT_TRUE(Run<GatedActivation>({.width = 21}, {.gate_up = in, .out = out.tensor()}).ok());
  Array again(DType::kF32, {3, 21});
  ASSERT_TRUE(
      Run<GatedActivation>({.width = 21}, {.gate_up = dense.tensor(), .out = again.tensor()}).ok());
  EXPECT_EQ(out, again);
  EXPECT_TRUE(Run<GatedActivation>({.width = 21}, {.gate_up = Array(DType::kF32, {0, 42}).tensor(),
                                                   .out = Array(DType::kF32, {0, 21}).tensor()})
                  .ok());
}

TEST_P(ActivationTest, OverlapAndWrongWidthsAreRefused) {
  Array in(DType::kF32, {2, 8}), out(DType::kF32, {2, 4});
  Tensor inside = out.tensor();
  inside.data = in.tensor().data;
  EXPECT_THAT(Run<GatedActivation>({.width = 4}, {.gate_up = in.tensor(), .out = inside}).message(),
              HasSubstr("overlap"));
  EXPECT_THAT(
      Run<GatedActivation>({.width = 3}, {.gate_up = in.tensor(), .out = out.tensor()}).message(),
      HasSubstr("gate_up is F32 [2, 8], expected F32 [2, 6]"));
}

TEST_P(ActivationTest, ATensorOnAnotherDeviceIsRefusedBeforeAnythingIsWritten) {
  Array in(DType::kF32, {2, 8}), out(DType::kF32, {2, 4});
  in.Fill(1.0f);
  const Array untouched = out;
  // The device is its kind and its index: a second card of the same kind is another device.
  Tensor elsewhere = out.tensor();
  elsewhere.device.index = 1;
  EXPECT_THAT(
      Run<GatedActivation>({.width = 4}, {.gate_up = in.tensor(), .out = elsewhere}).message(),
      HasSubstr("out lies on cpu"));
  elsewhere.device = {device::DeviceKind::kXpu, 2};
  EXPECT_THAT(
      Run<GatedActivation>({.width = 4}, {.gate_up = in.tensor(), .out = elsewhere}).message(),
      HasSubstr("out lies on xpu:2, the call runs on cpu"));
  EXPECT_EQ(out, untouched);
}

TEST_P(ActivationTest, SoftCapIsTanhAtEveryScale) {
  for (float cap : {30.0f, 50.0f, 0.5f}) {
    const int n = 3001;
    Array x(DType::kF32, {1, n});
    for (int i = 0; i < n; ++i)
      x.Set(i, (i - 1500) * (i % 3 == 0 ? 1e-4f : i % 3 == 1 ? 0.05f : 3.0f));
    const Array before = x;
    ASSERT_TRUE(Run<SoftCap>({.cap = cap}, {.x = x.tensor()}).ok());
    for (int i = 0; i < n; ++i) {
      const double expected = cap * std::tanh(double{before.At(i)} / cap);
      EXPECT_NEAR(x.At(i), expected, 4e-7 * std::abs(expected)) << before.At(i);
    }
  }
  EXPECT_THAT(Bind<SoftCap>(device_->ops(), {.cap = 0.0f}).status().message(),
              HasSubstr("cap is 0"));
}

TEST_P(ActivationTest, WhatIsNotFarAboveARowsMeanIsZero) {
  // Mean 3, standard deviation 2; the second row has none.
  Array x = Array::Floats(DType::kF32, {2, 4}, {1, 5, 5, 1, 7, 7, 7, 7});
  ASSERT_TRUE(Run<GaussianTopK>({.width = 4, .deviations = 0.5f}, {.x = x.tensor()}).ok());
  const float expected[] = {0, 1, 1, 0, 0, 0, 0, 0};
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(x.At(i), expected[i], 1e-6f) << i;
  // Below the mean, too.
  x = Array::Floats(DType::kF32, {2, 4}, {1, 5, 5, 1, 0, 8, 4, 4});
  ASSERT_TRUE(Run<GaussianTopK>({.width = 4, .deviations = -2.0f}, {.x = x.tensor()}).ok());
  EXPECT_NEAR(x.At(0), 2.0f, 1e-6f);
  EXPECT_NEAR(x.At(4), 2 * std::sqrt(8.0f) - 4, 1e-5f);
  EXPECT_NEAR(x.At(5), 2 * std::sqrt(8.0f) + 4, 1e-5f);
  EXPECT_FALSE(Bind<GaussianTopK>(device_->ops(), {.width = 4, .deviations = INFINITY}).ok());
}

TEST_P(ActivationTest, ARowWithNotANumberIsNoneWhereItIsMadeSparse) {
  Array x = Array::Floats(DType::kF32, {1, 3}, {1, NAN, 3});
  ASSERT_TRUE(Run<GaussianTopK>({.width = 3}, {.x = x.tensor()}).ok());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(x.At(i))) << i;
}

}  // namespace
}  // namespace sluice::ops
