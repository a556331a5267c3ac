#include "ops/conformance.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/element.h"
#include "ops/embedding.h"
#include "ops/norm.h"
#include "ops/op_fixture.h"

namespace sluice::ops {
namespace {

using ::testing::HasSubstr;

Array Row(const std::vector<float>& values) {
  return Array::Floats(DType::kF32, {static_cast<int64_t>(values.size())}, values);
}

TEST(CompareTest, SeesEveryDifference) {
  const Array expected = Row({1.0f, -2.0f, kNan, 0.0f});
  EXPECT_TRUE(Compare(expected, expected, 0.0).ok);
  EXPECT_TRUE(Compare(Row({1.00001f, -2.0f, kNan, 0.0f}), expected, 1e-4).ok);
  for (const Array& wrong :
       {Row({1.001f, -2.0f, kNan, 0.0f}), Row({1.0f, 2.0f, kNan, 0.0f}),
        Row({1.0f, -2.0f, 3.0f, 0.0f}), Row({1.0f, -2.0f, kNan, kNan}),
        Row({1.0f, -2.0f, kNan, kInfinity}), Row({1.0f, -kInfinity, kNan, 0.0f})}) {
    const Comparison comparison = Compare(wrong, expected, 1e-4);
    EXPECT_FALSE(comparison.ok);
    EXPECT_GT(comparison.error, 1e-4);
    EXPECT_THAT(comparison.what, HasSubstr("element"));
  }
  EXPECT_FALSE(Compare(Row({kInfinity}), Row({-kInfinity}), 1e-4).ok);
  EXPECT_TRUE(Compare(Row({kInfinity}), Row({kInfinity}), 1e-4).ok);
}

TEST(CompareTest, ALimitOfZeroAsksForTheSameBytes) {
  EXPECT_FALSE(Compare(Row({0.0f}), Row({-0.0f}), 0.0).ok);
  EXPECT_FALSE(Compare(Array::Ints({1, 2}), Array::Ints({1, 3}), 0.0).ok);
  EXPECT_TRUE(Compare(Row({kNan}), Row({kNan}), 0.0).ok);
  EXPECT_FALSE(Compare(Row({1.0f}), Row({1.0f, 2.0f}), 1.0).ok);
}

Status ForgetsTheLastElement(device::Stream& stream, const Norm::Desc& desc,
                             const Norm::Args& args) {
  SLUICE_RETURN_IF_ERROR(RefNorm(stream, desc, args));
  if (args.out.size() > 0 && desc.activation == DType::kF32)
    args.out.ptr<float>()[desc.hidden - 1] *= 1.01f;
  return OkStatus();
}

Status WritesIntoItsInput(device::Stream& stream, const Norm::Desc& desc, const Norm::Args& args) {
  SLUICE_RETURN_IF_ERROR(RefNorm(stream, desc, args));
  if (!args.weight.empty()) args.weight.ptr<float>()[0] += 1.0f;
  return OkStatus();
}

Status GivesUp(device::Stream&, const Norm::Desc&, const Norm::Args&) {
  return Status(StatusCode::kDevice, "gave up");
}

// Ignores the window: what lies before it is NaN or has no block.
Status IgnoresTheWindow(device::Stream& stream, const Attention::Desc& desc,
                        const Attention::Args& args) {
  Attention::Desc changed = desc;
  changed.window = desc.window > 1 ? desc.window - 1 : desc.window;
  return RefAttention(stream, changed, args);
}

Status WritesARowMore(device::Stream& stream, const GatherRows::Desc& desc,
                      const GatherRows::Args& args) {
  SLUICE_RETURN_IF_ERROR(RefGatherRows(stream, desc, args));
  StoreElement(desc.activation, args.out.data, args.out.size(), 1.0f);
  return OkStatus();
}

// Caps what lies behind x too: not a number stays what it is.
Status CapsAnElementMore(device::Stream& stream, const SoftCap::Desc& desc,
                         const SoftCap::Args& args) {
  SLUICE_RETURN_IF_ERROR(RefSoftCap(stream, desc, args));
  const int64_t end = args.x.dims[0] == 0 ? 0 : (args.x.dims[0] - 1) * args.x.strides[0];
  const int64_t past = end + (args.x.dims[0] == 0 ? 0 : args.x.dims[1] + 2);
  const float x = LoadElement(desc.activation, args.x.data, past);
  StoreElement(desc.activation, args.x.data, past, desc.cap * std::tanh(x / desc.cap));
  return OkStatus();
}

class ConformanceTest : public OpTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, ConformanceTest, ::testing::Values("ref"),
                         [](const auto& set) { return set.param; });

TEST_P(ConformanceTest, PlantedDefectsAreFound) {
  OpTable table(&device_->facts());
  table.Add<Norm>({"good", &RefNormSupports, &RefNorm});
  table.Add<Norm>({"bad_element", &RefNormSupports, &ForgetsTheLastElement});
  table.Add<Norm>({"bad_input", &RefNormSupports, &WritesIntoItsInput});
  table.Add<Norm>({"bad_status", &RefNormSupports, &GivesUp});
  table.Add<GatherRows>({"bad_end", &RefGatherRowsSupports, &WritesARowMore});
  table.Add<Attention>({"bad_window", &RefAttentionSupports, &IgnoresTheWindow});
  table.Add<SoftCap>({"bad_cap", &RefSoftCapSupports, &CapsAnElementMore});
  const auto results = RunConformance(*device_, table, {.seed = 3, .cases = 40});
  ASSERT_TRUE(results.ok()) << results.status().message();
  ASSERT_EQ(results->size(), 7u);
  for (const ConformanceResult& result : *results) {
    EXPECT_EQ(result.cases, 40);
    EXPECT_EQ(result.ok(), result.implementation == "good") << result.implementation;
  }
  const std::string text = FormatConformance(*results);
  EXPECT_THAT(text, HasSubstr("good"));
  EXPECT_THAT(text, HasSubstr("FAILED"));
  EXPECT_THAT(text, HasSubstr("gave up"));
  EXPECT_THAT(text, HasSubstr("written past its end"));
}

Status WrongInQ51(device::Stream& stream, const Embedding::Desc& desc,
                  const Embedding::Args& args) {
  SLUICE_RETURN_IF_ERROR(RefEmbedding(stream, desc, args));
  if (desc.table == DType::kQ5_1 && args.out.size() > 0) args.out.data[0] ^= std::byte{1};
  return OkStatus();
}

// Formats drawn at random left four of sixteen out of 20 cases.
TEST_P(ConformanceTest, FewCasesMeetEveryFormat) {
  OpTable table(&device_->facts());
  table.Add<Embedding>({"bad_q5_1", &RefEmbeddingSupports, &WrongInQ51});
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const auto results = RunConformance(*device_, table, {.seed = seed, .cases = 48});
    ASSERT_TRUE(results.ok()) << results.status().message();
    EXPECT_FALSE(results->at(0).ok()) << seed;
    EXPECT_LE(results->at(0).failures, 3) << seed;
  }
}

Status OffByHalfItsLimit(device::Stream& stream, const SoftCap::Desc& desc,
                         const SoftCap::Args& args) {
  SLUICE_RETURN_IF_ERROR(RefSoftCap(stream, desc, args));
  if (desc.activation == DType::kF32 && args.x.size() > 0) {
    float& x = args.x.ptr<float>()[0];
    x += 0.5e-6f * (1.0f + std::abs(x));
  }
  return OkStatus();
}

TEST_P(ConformanceTest, TheShareIsThatOfTheCasesOwnLimit) {
  OpTable table(&device_->facts());
  table.Add<SoftCap>({"near", &RefSoftCapSupports, &OffByHalfItsLimit});
  const auto results = RunConformance(*device_, table, {.cases = 40});
  ASSERT_TRUE(results.ok()) << results.status().message();
  EXPECT_TRUE(results->at(0).ok());
  EXPECT_GT(results->at(0).share_max, 0.4);
  EXPECT_LT(results->at(0).share_max, 0.6);
}

Support TakesFew(const Norm::Desc& desc, const device::DeviceFacts&) {
  return desc.activation == DType::kBF16 && desc.add ? Support::Yes() : Support::No("no");
}

// 16-bit linears met 2 of 100 cases while cases were drawn for the op.
TEST_P(ConformanceTest, CasesAreThoseThatAnImplementationTakes) {
  OpTable table(&device_->facts());
  table.Add<Norm>({"picky", &TakesFew, &RefNorm});
  table.Add<Norm>({"easy", &RefNormSupports, &RefNorm});
  const auto results = RunConformance(*device_, table, {.cases = 20});
  ASSERT_TRUE(results.ok());
  EXPECT_EQ(results->at(0).cases, 20);
  EXPECT_GT(results->at(0).declined, 100);
  EXPECT_EQ(results->at(1).cases, 20);
  EXPECT_EQ(results->at(1).declined, 0);
}

TEST_P(ConformanceTest, WhatMeetsNoCaseIsNotRight) {
  OpTable table(&device_->facts());
  table.Add<Norm>(
      {"picky", [](const Norm::Desc&, const device::DeviceFacts&) { return Support::No("never"); },
       &GivesUp});
  const auto results = RunConformance(*device_, table, {.cases = 5});
  ASSERT_TRUE(results.ok());
  EXPECT_EQ(results->at(0).declined, 400);
  EXPECT_EQ(results->at(0).cases, 0);
  EXPECT_FALSE(results->at(0).ok());
  const std::string text = FormatConformance(*results);
  EXPECT_THAT(text, HasSubstr("FAILED"));
  EXPECT_THAT(text, HasSubstr("no case: it took none of 400 descriptors"));
}

TEST_P(ConformanceTest, WhatThisDeviceCannotRunIsShownAndNoFailure) {
  OpTable table(&device_->facts());
  table.Add<Norm>({"elsewhere",
                   [](const Norm::Desc& desc, const device::DeviceFacts&) {
                     return desc.activation == DType::kF32 ? Support::NotOnDevice("needs wings")
                                                           : Support::No("F32 alone");
                   },
                   &GivesUp});
  const auto results = RunConformance(*device_, table, {.cases = 5});
  ASSERT_TRUE(results.ok());
  EXPECT_EQ(results->at(0).cases, 0);
  EXPECT_TRUE(results->at(0).ok());
  EXPECT_THAT(FormatConformance(*results), HasSubstr("not run: needs wings"));
}

template <Activation kKind>
Status WrongInOneKind(device::Stream& stream, const GatedActivation::Desc& desc,
                      const GatedActivation::Args& args) {
  SLUICE_RETURN_IF_ERROR(RefGatedActivation(stream, desc, args));
  if (desc.kind == kKind && args.out.size() > 0) args.out.data[0] ^= std::byte{1};
  return OkStatus();
}

TEST_P(ConformanceTest, AsManyCasesAsActivationsMeetEach) {
  OpTable table(&device_->facts());
  const auto add = [&](std::string_view name, auto run) {
    table.Add<GatedActivation>({name, &RefGatedActivationSupports, run});
  };
  add("silu", &WrongInOneKind<Activation::kSilu>);
  add("gelu_tanh", &WrongInOneKind<Activation::kGeluTanh>);
  add("gelu_erf", &WrongInOneKind<Activation::kGeluErf>);
  add("relu_squared", &WrongInOneKind<Activation::kReluSquared>);
  add("clamped_swiglu", &WrongInOneKind<Activation::kClampedSwiglu>);
  ASSERT_EQ(std::size(kActivations), 5u);
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const auto results = RunConformance(*device_, table, {.seed = seed, .cases = 5});
    ASSERT_TRUE(results.ok());
    for (const ConformanceResult& result : *results) {
      EXPECT_GT(result.error_max, 0.0) << result.implementation << ' ' << seed;
    }
  }
}

TEST_P(ConformanceTest, OnlyLeavesTheOthersOut) {
  OpTable table(&device_->facts());
  table.Add<Norm>({"good", &RefNormSupports, &RefNorm});
  table.Add<Norm>({"broken", &RefNormSupports, &GivesUp});
  const auto good = RunConformance(*device_, table, {.cases = 1, .only = "goo"});
  ASSERT_TRUE(good.ok());
  ASSERT_EQ(good->size(), 1u);
  EXPECT_EQ(good->at(0).implementation, "good");
  EXPECT_TRUE(good->at(0).ok());
  const auto broken = RunConformance(*device_, table, {.cases = 1, .only = "broken"});
  ASSERT_TRUE(broken.ok());
  ASSERT_EQ(broken->size(), 1u);
  EXPECT_FALSE(broken->at(0).ok());
  const auto none = RunConformance(*device_, table, {.cases = 1, .only = "nothing"});
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
}

// Not of the engine: nothing generates cases for it.
struct Forgotten {
  static constexpr std::string_view kName = "forgotten";
  using Desc = Norm::Desc;
  using Args = Norm::Args;
};

TEST_P(ConformanceTest, AnOpThatNothingChecksFails) {
  OpTable table(&device_->facts());
  table.Add<Norm>({"good", &RefNormSupports, &RefNorm});
  table.Add<Forgotten>({"ref_forgotten", &RefNormSupports, &RefNorm});
  const auto results = RunConformance(*device_, table, {.cases = 1});
  ASSERT_TRUE(results.ok()) << results.status().message();
  ASSERT_EQ(results->size(), 2u);
  EXPECT_TRUE(results->at(0).ok());
  EXPECT_EQ(results->at(1).op, "forgotten");
  EXPECT_FALSE(results->at(1).ok());
}

TEST_P(ConformanceTest, EveryOpOfTheDeviceIsChecked) {
  const auto results = RunConformance(*device_, {.cases = 1});
  ASSERT_TRUE(results.ok()) << results.status().message();
  std::set<std::string, std::less<>> checked;
  for (const ConformanceResult& result : *results) {
    EXPECT_TRUE(result.ok()) << result.op << ": " << result.first_failure;
    checked.insert(result.op);
  }
  for (const std::string& op : device_->ops().Ops()) EXPECT_EQ(checked.count(op), 1u) << op;
}

}  // namespace
}  // namespace sluice::ops
