// Experts: found apart or in one tensor, stacked into one parameter, with their scales.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weights/weights_fixture.h"

namespace sluice::weights {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kMergedExperts = 2, kMergedColumns = 2;

ParamSpec Experts(const SourceList& sources) {
  ParamSpec spec = Matrix("m", kMergedColumns, sources);
  spec.role = ParamRole::kExperts;
  spec.experts = kMergedExperts;
  return spec;
}

// Two gate rows and one up row of each expert, each expert's apart.
ParamSpec Apart() {
  return Experts({{"gate0.weight", 2}, {"up0.weight", 1}, {"gate1.weight", 2}, {"up1.weight", 1}});
}

// The same, where one tensor has those of all experts.
ParamSpec Together() {
  const auto gate = [](int64_t e) { return ParamSource{"gates", 2, {1, 4, 2 * e, 2}}; };
  const auto up = [](int64_t e) { return ParamSource{"ups", 1, {1, 2, e, 1}}; };
  return Experts({gate(0), up(0), gate(1), up(1)});
}

TEST(Experts, LieExpertByExpertHoweverTheyAreStored) {
  FakeSource apart, together;
  apart.AddF32("gate0.weight", {2, 2}, Ramp(4, 0)).AddF32("gate1.weight", {2, 2}, Ramp(4, 4));
  apart.AddF32("up0.weight", {1, 2}, Ramp(2, 10)).AddF32("up1.weight", {1, 2}, Ramp(2, 12));
  together.AddF32("gates", {2, 2, 2}, Ramp(8, 0)).AddF32("ups", {2, 1, 2}, Ramp(4, 10));
  for (const bool staged : {false, true}) {
    FakeDevice device;
    device.facts_.device_memory = staged;
    for (const bool stacked : {false, true}) {
      auto map = Place({stacked ? Together() : Apart()}, stacked ? together : apart, device, {},
                       {.staging_bytes = 1});
      ASSERT_TRUE(map.ok()) << map.status().message();
      const std::vector<LinearPart>& parts = map->Find("m")->parts;
      ASSERT_EQ(parts.size(), 1u);
      EXPECT_TRUE(parts[0].grouped.bound());
      EXPECT_EQ(parts[0].grouped.desc().experts, 2);
      EXPECT_EQ(parts[0].grouped.desc().each.n, 3);
      EXPECT_EQ(parts[0].weight.n, 6);
      EXPECT_THAT(Values(parts[0].weight.data),
                  ElementsAre(0, 1, 2, 3, 10, 11, 4, 5, 6, 7, 12, 13));
    }
  }
}

TEST(Experts, PiecesOfTwoFormatsAreTwoPartsOfAllExperts) {
  FakeSource source;
  source.AddF32("gates", {2, 2, 2}, Ramp(8, 0));
  source.AddHalf("ups", DType::kBF16, {2, 1, 2}, Ramp(4, 10));
  FakeDevice device;
  auto map = Place({Together()}, source, device);
  ASSERT_TRUE(map.ok()) << map.status().message();
  const std::vector<LinearPart>& parts = map->Find("m")->parts;
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_THAT(Values(parts[0].weight.data), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(parts[1].weight.dtype, DType::kBF16);
  EXPECT_EQ(parts[1].row_begin, 2);
  EXPECT_EQ(parts[1].grouped.desc().each.n, 1);
  EXPECT_EQ(BF16ToF32(parts[1].weight.data.ptr<uint16_t>()[2]), 12);
}

TEST(Experts, StoredInTwoFormatsAreRefused) {
  FakeSource source;
  source.AddF32("gate0.weight", {2, 2}, Ramp(4, 0)).AddF32("up0.weight", {1, 2}, Ramp(2, 0));
  source.AddHalf("gate1.weight", DType::kBF16, {2, 2}, Ramp(4, 0));
  source.AddF32("up1.weight", {1, 2}, Ramp(2, 0));
  FakeDevice device;
  const Status status = Place({Apart()}, source, device).status();
  EXPECT_EQ(status.code(), StatusCode::kBadModel);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("\"gate1.weight\" is stored as BF16"),
                                      HasSubstr("first expert as F32")));
}

TEST(Experts, StacksOfAnotherShapeAreRefused) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{4, 2}, {2, 4, 1}, {1, 4, 2}}) {
    FakeSource source;
    source.AddF32("gates", shape, Ramp(8, 0)).AddF32("ups", {2, 1, 2}, Ramp(4, 0));
    FakeDevice device;
    const Status status = Place({Together()}, source, device).status();
    EXPECT_THAT(status.message(), HasSubstr("asks for [2, 2, 2]"));
  }
}

// Of one number a matrix: one a row of the stack.
TEST(Experts, InF8KeepTheirScalesWhereTheDeviceTakesThem) {
  FakeSource source;
  for (const char* name : {"gate0", "up0", "gate1", "up1"}) {
    const int64_t rows = name[0] == 'g' ? 2 : 1;
    const std::vector<std::byte> codes(static_cast<size_t>(2 * rows), std::byte{F32ToF8E4M3(2)});
    source.Add(StrCat(name, ".weight"), DType::kF8E4M3, {rows, 2}, codes);
    source.AddF32(StrCat(name, ".weight_scale"), {}, {name[name[0] == 'g' ? 4 : 2] + 0.5f - '0'});
  }
  FakeDevice device;
  device.facts_.architecture = "f8";
  auto map = Place({Apart()}, source, device);
  ASSERT_TRUE(map.ok()) << map.status().message();
  const LinearPart& part = map->Find("m")->parts[0];
  EXPECT_EQ(part.weight.dtype, DType::kF8E4M3);
  EXPECT_EQ(part.grouped.desc().each.weight_scales, ops::WeightScales::kRow);
  EXPECT_THAT(Values(part.weight.scales), ElementsAre(0.5f, 0.5f, 0.5f, 1.5f, 1.5f, 1.5f));

  FakeDevice without;
  const auto plan = PlanWeights({Apart()}, source, without, {});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_THAT(plan->records[0].slow, HasSubstr("widened to BF16"));
  map = Place({Apart()}, source, without);
  ASSERT_TRUE(map.ok()) << map.status().message();
  const LinearPart& wide = map->Find("m")->parts[0];
  EXPECT_EQ(wide.weight.dtype, DType::kBF16);
  EXPECT_EQ(BF16ToF32(wide.weight.data.ptr<uint16_t>()[0]), 1.0f);
  EXPECT_EQ(BF16ToF32(wide.weight.data.ptr<uint16_t>()[11]), 3.0f);
}

// As the checkpoint says, where the device multiplies F8; a static scale is each expert's own.
TEST(Experts, InF8MeetActivationsInF8ButForStaticScales) {
  FakeSource source;
  for (const char* name : {"gate0", "up0", "gate1", "up1"}) {
    const int64_t rows = name[0] == 'g' ? 2 : 1;
    const std::vector<std::byte> codes(static_cast<size_t>(2 * rows), std::byte{F32ToF8E4M3(2)});
    source.Add(StrCat(name, ".weight"), DType::kF8E4M3, {rows, 2}, codes);
    source.AddF32(StrCat(name, ".weight_scale"), {}, {0.5f});
    source.AddF32(StrCat(name, ".input_scale"), {}, {0.25f});
  }
  FakeDevice device;
  const auto scales_of_x = [&](const char* architecture, files::F8Inputs inputs) {
    device.facts_.architecture = architecture;
    PlanOptions options;
    options.quantization = files::F8Quantization{"fp8", inputs};
    const auto plan = PlanWeights({Apart()}, source, device, options);
    CHECK(plan.ok(), plan.status().message());
    return plan->params[0].parts[0].grouped.desc().each.x_scales;
  };
  EXPECT_EQ(scales_of_x("f8f8", files::F8Inputs::kToken), ops::ActivationScales::kRow);
  EXPECT_EQ(scales_of_x("f8", files::F8Inputs::kToken), ops::ActivationScales::kNone);
  EXPECT_EQ(scales_of_x("f8f8", files::F8Inputs::kStatic), ops::ActivationScales::kNone);
  EXPECT_EQ(scales_of_x("f8f8", files::F8Inputs::kAsTheyAre), ops::ActivationScales::kNone);
}

TEST(Experts, InF8InOneTensorAreRefused) {
  FakeSource source;
  source.Add("gates", DType::kF8E4M3, {2, 2, 2}, std::vector<std::byte>(8));
  source.AddF32("ups", {2, 1, 2}, Ramp(4, 0));
  FakeDevice device;
  EXPECT_THAT(Place({Together()}, source, device).status().message(),
              HasSubstr("\"gates\" has all experts of a layer in F8_E4M3"));
}

}  // namespace
}  // namespace sluice::weights
