// F8 matrices with scales: how they are found, checked, put together and placed.
#include "weights/scales.h"

#include <gmock/gmock.h>

#include <limits>

#include "weights/repack.h"
#include "weights/weights_fixture.h"

namespace sluice::weights {
namespace {

using ops::ActivationScales;
using ops::WeightScales;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

files::F8Quantization Fp8(files::F8Inputs inputs) { return {"fp8", inputs}; }

// Adds the F8 matrix `name`.weight, whose rows are 1, 2, 3, ... (as F8 has them).
void AddF8(FakeSource* source, const std::string& name, int64_t rows, int64_t columns) {
  std::vector<std::byte> bytes;
  for (int64_t i = 0; i < rows * columns; ++i) {
    bytes.push_back(std::byte{F32ToF8E4M3(static_cast<float>(1 + i / columns % 8))});
  }
  source->Add(name + ".weight", DType::kF8E4M3, {rows, columns}, bytes);
}

ParamSpec Joined(std::vector<std::pair<std::string, int64_t>> parts, int64_t columns) {
  SourceList sources;
  for (const auto& [name, rows] : parts) sources.push_back({name + ".weight", rows});
  return Matrix("m", columns, sources);
}

std::vector<float> Floats(const ops::Tensor& tensor) {
  return {tensor.ptr<float>(), tensor.ptr<float>() + tensor.size()};
}

class ScalesTest : public testing::Test {
 protected:
  ScalesTest() {
    device_.facts_.architecture = "f8";
    device_.free_bytes = 64u << 20;
  }
  // What became of `spec`; the parts of the map live as long as the test.
  const std::vector<LinearPart>& Parts(const ParamSpec& spec) {
    auto placed = Place({spec}, source_, device_, options_, place_);
    EXPECT_TRUE(placed.ok()) << placed.status().message();
    maps_.push_back(std::move(*placed));
    return maps_.back().Find("m")->parts;
  }
  std::string Error(const ParamSpec& spec) {
    const auto resolved = Resolve(spec, source_, Naming::kHuggingFace, options_.quantization);
    EXPECT_FALSE(resolved.ok());
    EXPECT_EQ(resolved.status().code(), StatusCode::kBadModel);
    return resolved.status().message();
  }

  FakeSource source_;
  FakeDevice device_;
  PlanOptions options_;
  PlaceOptions place_;
  std::deque<ParameterMap> maps_;
};

TEST_F(ScalesTest, OneMatrixKeepsItsOwn) {
  AddF8(&source_, "a", 130, 4);
  for (const auto& [suffix, shape, covers] :
       {std::tuple<std::string, std::vector<int64_t>, WeightScales>{
            "_scale", {}, WeightScales::kTensor},
        {"_scale", {1}, WeightScales::kTensor},
        {"_scale", {130}, WeightScales::kRow},
        {"_scale", {130, 1}, WeightScales::kRow},
        {"_scale_inv", {2, 1}, WeightScales::kBlock}}) {
    FakeSource source;
    source.Add("a.weight", DType::kF8E4M3, {130, 4}, std::vector<std::byte>(520, std::byte{0x38}));
    const int64_t count = shape.empty() ? 1 : shape[0];
    source.AddF32("a.weight" + suffix, shape, Ramp(count, 1));
    const auto map = Place({Joined({{"a", 130}}, 4)}, source, device_);
    ASSERT_TRUE(map.ok()) << map.status().message();
    const LinearPart& part = map->Find("m")->parts.front();
    EXPECT_EQ(part.linear.desc().weight_scales, covers);
    EXPECT_EQ(part.weight.dtype, DType::kF8E4M3);
    EXPECT_EQ(Floats(part.weight.scales), Ramp(count, 1));
    EXPECT_TRUE(part.weight.x_scale.empty());
    EXPECT_EQ(map->bytes(), 520 + count * sizeof(float));  // the plan counts scales
  }
}

TEST_F(ScalesTest, IntegersOf8BitsHaveThoseOfRowsOrOne) {
  const auto add = [&](const std::string& name, std::vector<int64_t> shape,
                       std::vector<float> scales) {
    source_.Add(name + ".weight", DType::kI8, {2, 32}, std::vector<std::byte>(64, std::byte{0x85}));
    source_.AddF32(name + ".weight_scale", std::move(shape), std::move(scales));
  };
  add("q", {2, 1}, {0.5f, 2});
  add("k", {1}, {4});
  source_.AddF32("k.input_scale", {1}, {0.1f});
  source_.Add("k.weight_zero_point", DType::kI8, {1}, {std::byte{0}});
  const auto& parts = Parts(Joined({{"q", 2}, {"k", 2}}, 32));
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].weight.dtype, DType::kI8);
  EXPECT_EQ(parts[0].linear.desc().weight_scales, WeightScales::kRow);
  EXPECT_EQ(parts[0].linear.desc().x_scales, ActivationScales::kNone);
  EXPECT_THAT(Floats(parts[0].weight.scales), ElementsAre(0.5f, 2, 4, 4));

  device_.facts_.architecture = "none";  // whose kernels know no scales
  const ops::PackedWeight& wide = Parts(Joined({{"q", 2}}, 32))[0].weight;
  ASSERT_EQ(wide.dtype, DType::kBF16);
  EXPECT_EQ(BF16ToF32(wide.data.ptr<uint16_t>()[0]), 0.5f * -123);
  EXPECT_EQ(BF16ToF32(wide.data.ptr<uint16_t>()[63]), BF16ToF32(F32ToBF16(2.0f * -123)));
}

TEST_F(ScalesTest, OfIntegersThatDoNotFitAreNamed) {
  const auto error = [&](const std::string& name) { return Error(Joined({{name, 2}}, 32)); };
  const std::vector<std::byte> codes(64);
  source_.Add("a.weight", DType::kI8, {2, 32}, codes);
  EXPECT_THAT(error("a"), HasSubstr("no tensor \"a.weight_scale\", but \"a.weight\" is I8"));
  source_.Add("b.weight", DType::kI8, {2, 32}, codes);
  source_.AddF32("b.weight_scale", {1, 2}, {1, 1});
  EXPECT_THAT(error("b"), HasSubstr("must be [1], [2] or [2, 1]"));
  source_.Add("c.weight", DType::kI8, {2, 32}, codes);
  source_.AddF32("c.weight_scale", {2}, {1, 0});
  EXPECT_THAT(error("c"), HasSubstr("finite and above 0"));
  source_.Add("d.weight", DType::kI8, {2, 32}, codes);
  source_.AddF32("d.weight_scale", {1}, {1});
  source_.Add("d.weight_zero_point", DType::kI8, {2}, {std::byte{0}, std::byte{3}});
  EXPECT_THAT(error("d"), HasSubstr("zero points other than 0"));
  source_.Add("e.weight", DType::kI8, {2, 32}, codes);
  source_.AddF32("e.weight_scale", {1}, {1});
  source_.AddF32("e.input_scale", {2}, {1, 1});
  EXPECT_THAT(error("e"), HasSubstr("is one number"));
}

TEST_F(ScalesTest, OfAGgufFileAreThoseOfNvfp4) {
  source_.Add("a.weight", DType::kNVFP4, {1, 64}, std::vector<std::byte>(36));
  source_.AddF32("a.scale", {1}, {3});
  const auto scales = FindGgufScales(*source_.Find("a.weight"), source_);
  ASSERT_TRUE(scales.ok()) << scales.status().message();
  EXPECT_EQ(scales->covers, WeightScales::kTensor);
  source_.Add("b.weight", DType::kNVFP4, {1, 64}, std::vector<std::byte>(36));
  EXPECT_EQ(FindGgufScales(*source_.Find("b.weight"), source_)->covers, WeightScales::kNone);
  source_.AddF32("b.scale", {2}, {1, 2});
  EXPECT_THAT(FindGgufScales(*source_.Find("b.weight"), source_).status().message(),
              HasSubstr("is one number"));
  source_.Add("c.weight", DType::kI8, {1, 32}, std::vector<std::byte>(32));
  EXPECT_THAT(FindGgufScales(*source_.Find("c.weight"), source_).status().message(),
              HasSubstr("no number format of a GGUF"));
}

TEST_F(ScalesTest, OfOneNumberEachBecomeOneOfEachRow) {
  AddF8(&source_, "q", 3, 4);
  AddF8(&source_, "k", 2, 4);
  AddF8(&source_, "v", 1, 4);
  source_.AddHalf("q.weight_scale", DType::kBF16, {1}, {0.5f});
  source_.AddF32("k.weight_scale", {2, 1}, {2, 4});
  const auto& parts = Parts(Joined({{"q", 3}, {"k", 2}, {"v", 1}}, 4));
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].linear.desc().weight_scales, WeightScales::kRow);
  EXPECT_THAT(Floats(parts[0].weight.scales), ElementsAre(0.5f, 0.5f, 0.5f, 2, 4, 1));
}

TEST_F(ScalesTest, BlocksOfWholeRowsOfBlocksAreOneMatrix) {
  AddF8(&source_, "gate", 256, 130);
  AddF8(&source_, "up", 140, 130);
  source_.AddF32("gate.weight_scale_inv", {2, 2}, Ramp(4, 1));
  source_.AddF32("up.weight_scale_inv", {2, 2}, Ramp(4, 5));
  const auto& parts = Parts(Joined({{"gate", 256}, {"up", 140}}, 130));
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].linear.desc().weight_scales, WeightScales::kBlock);
  EXPECT_EQ(Floats(parts[0].weight.scales), Ramp(8, 1));
}

TEST_F(ScalesTest, BlocksThatWouldShiftStayApart) {
  AddF8(&source_, "q", 200, 130);
  AddF8(&source_, "k", 128, 130);
  source_.AddF32("q.weight_scale_inv", {2, 2}, Ramp(4, 1));
  source_.AddF32("k.weight_scale_inv", {1, 2}, Ramp(2, 5));
  const auto& parts = Parts(Joined({{"q", 200}, {"k", 128}}, 130));
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[1].row_begin, 200);
  EXPECT_EQ(Floats(parts[0].weight.scales), Ramp(4, 1));
  EXPECT_EQ(Floats(parts[1].weight.scales), Ramp(2, 5));
}

TEST_F(ScalesTest, BlocksFollowTheRowsThatAreTaken) {
  AddF8(&source_, "w", 512, 2);
  source_.AddF32("w.weight_scale_inv", {4, 1}, Ramp(4, 1));
  // Two heads of 128 rows of queries and 128 of keys each.
  const SourceList sorted = {
      {"w.weight", 256, {.groups = 2, .group_rows = 256, .begin = 0, .count = 128}},
      {"w.weight", 256, {.groups = 2, .group_rows = 256, .begin = 128, .count = 128}}};
  const auto& parts = Parts(Matrix("m", 2, sorted));
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_THAT(Floats(parts[0].weight.scales), ElementsAre(1, 3, 2, 4));
}

TEST_F(ScalesTest, RowsThatBreakBlocksAreWidened) {
  source_.Add("w.weight", DType::kF8E4M3, {256, 1}, std::vector<std::byte>(256, std::byte{0x38}));
  source_.AddF32("w.weight_scale_inv", {2, 1}, {2, 4});
  const SourceList halves = {
      {"w.weight", 128, {.groups = 2, .group_rows = 128, .begin = 64, .count = 64}},
      {"w.weight", 128, {.groups = 2, .group_rows = 128, .begin = 0, .count = 64}}};
  const auto& parts = Parts(Matrix("m", 1, halves));
  ASSERT_EQ(parts.size(), 1u);
  ASSERT_EQ(parts[0].weight.dtype, DType::kBF16);
  const auto* values = parts[0].weight.data.ptr<uint16_t>();
  for (int i = 0; i < 256; ++i) EXPECT_EQ(BF16ToF32(values[i]), i / 64 % 2 == 0 ? 2.0f : 4.0f) << i;
}

TEST_F(ScalesTest, ActivationsBecomeF8WhereTheDeviceMultipliesIt) {
  AddF8(&source_, "a", 2, 4);
  AddF8(&source_, "b", 2, 4);
  source_.AddF32("a.weight_scale", {1}, {2}).AddF32("b.weight_scale", {1}, {3});
  source_.AddF32("a.input_scale", {}, {0.25f}).AddF32("b.activation_scale", {1}, {0.5f});
  const ParamSpec spec = Joined({{"a", 2}, {"b", 2}}, 4);
  for (const auto& [inputs, want] :
       {std::pair{files::F8Inputs::kAsTheyAre, ActivationScales::kNone},
        {files::F8Inputs::kToken, ActivationScales::kRow},
        {files::F8Inputs::kBlock, ActivationScales::kBlock},
        {files::F8Inputs::kStatic, ActivationScales::kTensor}}) {
    options_.quantization = Fp8(inputs);
    device_.facts_.architecture = "f8f8";
    EXPECT_EQ(Parts(spec).front().linear.desc().x_scales, want);
    device_.facts_.architecture = "f8";
    EXPECT_EQ(Parts(spec).front().linear.desc().x_scales, ActivationScales::kNone);
  }
  device_.facts_.architecture = "f8f8";
  const auto& parts = Parts(spec);
  EXPECT_THAT(Floats(parts[0].weight.scales), ElementsAre(2, 2, 3, 3));
  EXPECT_THAT(Floats(parts[0].weight.x_scale), ElementsAre(0.5f));  // covers both
}

TEST_F(ScalesTest, ADeviceWithoutThemGetsBf16AndIsToldToBeSlow) {
  AddF8(&source_, "a", 2, 4);
  source_.AddF32("a.weight_scale", {2}, {1, 2});
  const auto warnings = [&] {
    const auto plan = PlanWeights({Joined({{"a", 2}}, 4)}, source_, device_, options_);
    return ops::SlowFallbacks(plan.value().records);
  };
  EXPECT_TRUE(warnings().empty());
  device_.facts_.architecture = "";
  ASSERT_EQ(warnings().size(), 1u);
  EXPECT_THAT(warnings().front(), AllOf(HasSubstr("widened to BF16"), HasSubstr("scaled by row")));
}

TEST_F(ScalesTest, ComeThroughStagingAsInPlace) {
  AddF8(&source_, "a", 300, 4);
  source_.AddF32("a.weight_scale", {300, 1}, Ramp(300, 1));
  device_.facts_.device_memory = device_.facts_.pinned_memory = true;
  for (const size_t bytes : {size_t{1}, size_t{512}, size_t{16} << 20}) {
    place_.staging_bytes = bytes;
    EXPECT_EQ(Floats(Parts(Joined({{"a", 300}}, 4)).front().weight.scales), Ramp(300, 1));
  }
}

TEST_F(ScalesTest, AreUpdatedWithTheirMatrix) {
  AddF8(&source_, "a", 2, 4);
  source_.AddF32("a.weight_scale", {2}, {1, 2});
  auto map = Place({Joined({{"a", 2}}, 4)}, source_, device_);
  ASSERT_TRUE(map.ok());
  FakeSource other;
  AddF8(&other, "a", 2, 4);
  other.AddF32("a.weight_scale", {2}, {3, 4});
  const auto stream = device_.CreateStream().value();
  const Status status = map->Update(device_, *stream, "m", other);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(Floats(map->Find("m")->parts[0].weight.scales), ElementsAre(3, 4));
}

TEST_F(ScalesTest, MissingOrMisshapenOnesAreRefused) {
  AddF8(&source_, "a", 130, 4);
  const ParamSpec spec = Joined({{"a", 130}}, 4);
  ASSERT_TRUE(Resolve(spec, source_, Naming::kHuggingFace).ok());
  options_.quantization = Fp8(files::F8Inputs::kStatic);
  EXPECT_THAT(Error(spec), AllOf(HasSubstr("no tensor \"a.weight_scale\""), HasSubstr("fp8")));
  source_.AddF32("a.weight_scale", {1}, {1});
  EXPECT_THAT(Error(spec), HasSubstr("no tensor \"a.input_scale\""));
  source_.AddF32("a.input_scale", {2}, {1, 1});
  EXPECT_THAT(Error(spec), AllOf(HasSubstr("\"a.input_scale\""), HasSubstr("[2]")));

  FakeSource three;
  AddF8(&three, "a", 130, 4);
  three.AddF32("a.weight_scale", {3}, {1, 1, 1});
  const auto resolved = Resolve(spec, three, Naming::kHuggingFace);
  ASSERT_FALSE(resolved.ok());
  EXPECT_THAT(resolved.status().message(),
              AllOf(HasSubstr("has shape [3]"), HasSubstr("of shape [130, 4]"),
                    HasSubstr("[1], [130], [130, 1] or [2, 1]")));
}

TEST_F(ScalesTest, ThatAreNoScalesAreRefused) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const auto& [value, text] :
       {std::pair{0.0f, "has 0 as its number 1"},
        {-1.0f, "has -1 as its number 1"},
        {kInfinity, "has inf as its number 1"},
        {std::numeric_limits<float>::quiet_NaN(), "nan as its number"}}) {
    FakeSource source;
    AddF8(&source, "a", 2, 4);
    source.AddF32("a.weight_scale", {2}, {1, value});
    const auto resolved = Resolve(Joined({{"a", 2}}, 4), source, Naming::kHuggingFace);
    ASSERT_FALSE(resolved.ok());
    EXPECT_THAT(resolved.status().message(),
                AllOf(HasSubstr(text), HasSubstr("finite and above 0")));
  }
  AddF8(&source_, "a", 2, 4);
  source_.Add("a.weight_scale", DType::kI32, {1}, std::vector<std::byte>(4, std::byte{1}));
  EXPECT_THAT(Error(Joined({{"a", 2}}, 4)), HasSubstr("stored as I32"));
}

TEST_F(ScalesTest, OfAnotherFormatAreRefused) {
  source_.AddHalf("a.weight", DType::kBF16, {2, 2}, {1, 2, 3, 4});
  source_.AddF32("a.weight_scale", {1}, {1});
  EXPECT_THAT(Error(Joined({{"a", 2}}, 2)),
              AllOf(HasSubstr("\"a.weight_scale\""), HasSubstr("stored as BF16")));
}

}  // namespace
}  // namespace sluice::weights
