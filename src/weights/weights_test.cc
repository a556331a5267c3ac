// Manifest, transform, repack, place and update over a small made-up checkpoint and a device that
// counts what is asked of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "weights/transform.h"
#include "weights/weights_fixture.h"

namespace sluice::weights {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ParamSpec Qkv() { return Matrix("qkv", 2, {{"q", 4}, {"k", 2}, {"v", 2}}); }

TEST(Manifest, MissingTensorIsNamed) {
  FakeSource source;
  source.AddF32("q", {4, 2}, Ramp(8, 0)).AddF32("v", {2, 2}, Ramp(4, 0));
  const auto resolved = Resolve(Qkv(), source, Naming::kHuggingFace);
  ASSERT_FALSE(resolved.ok());
  EXPECT_EQ(resolved.status().code(), StatusCode::kBadModel);
  EXPECT_THAT(resolved.status().message(), HasSubstr("no tensor \"k\", needed for qkv"));
}

// A file has one of two spellings: the tensor that it lacks is named in its own, wherever in the
// list it stands, and whatever tensors both spellings share.
TEST(Manifest, AMissingTensorIsNamedAsTheFileSpellsTheOthers) {
  const auto spelled = [](const std::string& name) {
    ParamSpec spec = Matrix(name, 2, {{"middle." + name, 2}});
    spec.hugging_face.push_back({{"layers.0." + name, 2}});
    return spec;
  };
  ParamSpec shared = Matrix("join", 2, {{"join", 2}});
  shared.hugging_face.push_back({{"join", 2}});
  const std::vector<ParamSpec> specs = {shared, spelled("up"), spelled("down"), spelled("gate")};
  for (const std::string prefix : {"middle.", "layers.0."}) {
    for (const std::string missing : {"up", "down", "gate"}) {
      FakeSource source;
      source.AddF32("join", {2, 2}, Ramp(4, 0));
      for (const std::string name : {"up", "down", "gate"})
        if (name != missing) source.AddF32(prefix + name, {2, 2}, Ramp(4, 0));
      const auto resolved = Resolve(specs, source, Naming::kHuggingFace);
      ASSERT_FALSE(resolved.ok());
      EXPECT_THAT(resolved.status().message(),
                  HasSubstr("no tensor \"" + prefix + missing + "\", needed for " + missing));
    }
  }
}

TEST(Manifest, ShapeThatDoesNotFitNamesBothShapes) {
  FakeSource source;
  source.AddF32("q", {4, 3}, Ramp(12, 0)).AddF32("k", {2, 2}, Ramp(4, 0));
  source.AddF32("v", {2, 2}, Ramp(4, 0));
  const auto resolved = Resolve(Qkv(), source, Naming::kHuggingFace);
  ASSERT_FALSE(resolved.ok());
  EXPECT_EQ(resolved.status().code(), StatusCode::kBadModel);
  EXPECT_THAT(resolved.status().message(),
              AllOf(HasSubstr("\"q\""), HasSubstr("[4, 3]"), HasSubstr("[4, 2]")));
}

TEST(Manifest, MatrixWhereVectorIsWantedIsRefused) {
  FakeSource source;
  source.AddF32("norm", {4, 1}, Ramp(4, 0));
  EXPECT_FALSE(Resolve(Vector("norm", ParamRole::kNorm, "norm", 4), source, Naming::kGguf).ok());
}

TEST(Manifest, AVectorMayLieInRowsOfGgufWhereItIsSaid) {
  FakeSource source;
  source.AddF32("v", {2, 3}, Ramp(6, 0));
  source.AddF32("w", {2, 2}, Ramp(4, 0));
  ParamSpec spec = Vector("v", ParamRole::kNorm, "v", 6);
  EXPECT_FALSE(Resolve(spec, source, Naming::kGguf).ok());
  spec.gguf_divided = true;
  EXPECT_TRUE(Resolve(spec, source, Naming::kGguf).ok());
  EXPECT_FALSE(Resolve(spec, source, Naming::kHuggingFace).ok());
  spec = Vector("w", ParamRole::kNorm, "w", 6);
  spec.gguf_divided = true;
  EXPECT_FALSE(Resolve(spec, source, Naming::kGguf).ok());
}

TEST(Transform, LogarithmsOfNegativeNumbersAreThoseInHuggingFaceNaming) {
  FakeSource source;
  source.AddF32("a", {2}, {0.0f, 1.0f});
  ParamSpec spec = Vector("a", ParamRole::kNorm, "a", 2);
  spec.hugging_face_log = true;
  FakeDevice device;
  PlanOptions options;
  auto map = Place({spec}, source, device, options);
  ASSERT_TRUE(map.ok()) << map.status().message();
  EXPECT_THAT(Values(map->Find("a")->tensor), ElementsAre(-1.0f, -std::exp(1.0f)));
  options.naming = Naming::kGguf;
  map = Place({spec}, source, device, options);
  ASSERT_TRUE(map.ok());
  EXPECT_THAT(Values(map->Find("a")->tensor), ElementsAre(0.0f, 1.0f));
}

TEST(Manifest, FormatThatTheRoleDoesNotAllowIsRefused) {
  FakeSource source;
  source.Add("norm", DType::kQ8_0, {32}, std::vector<std::byte>(34));
  source.Add("ids", DType::kI32, {2, 2}, std::vector<std::byte>(16));
  const auto norm = Resolve(Vector("n", ParamRole::kNorm, "norm", 32), source, Naming::kGguf);
  ASSERT_FALSE(norm.ok());
  EXPECT_THAT(norm.status().message(), AllOf(HasSubstr("\"norm\""), HasSubstr("Q8_0")));
  const auto ids = Resolve(Matrix("m", 2, {{"ids", 2}}), source, Naming::kGguf);
  ASSERT_FALSE(ids.ok());
  EXPECT_THAT(ids.status().message(), HasSubstr("I32"));
}

TEST(Manifest, TakesTheFirstCompleteAlternative) {
  FakeSource source;
  source.AddF32("tied", {2, 2}, Ramp(4, 0));
  ParamSpec output = Matrix("output", 2, {{"own", 2}});
  output.gguf.push_back({{"tied", 2}});
  const auto resolved = Resolve(output, source, Naming::kGguf);
  ASSERT_TRUE(resolved.ok()) << resolved.status().message();
  EXPECT_EQ(resolved->tensors.front()->name, "tied");
}

TEST(Transform, NormsBecomeF32AndGainOneOnlyInHuggingFaceNaming) {
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    FakeSource source;
    source.AddHalf("norm", dtype, {2}, {0.5f, -0.25f});
    ParamSpec spec = Vector("norm", ParamRole::kNorm, "norm", 2);
    spec.hugging_face_adds_one = true;
    FakeDevice device;
    PlanOptions options;
    auto map = Place({spec}, source, device, options);
    ASSERT_TRUE(map.ok()) << map.status().message();
    EXPECT_THAT(Values(map->Find("norm")->tensor), ElementsAre(1.5f, 0.75f));
    options.naming = Naming::kGguf;
    map = Place({spec}, source, device, options);
    ASSERT_TRUE(map.ok());
    EXPECT_THAT(Values(map->Find("norm")->tensor), ElementsAre(0.5f, -0.25f));
  }
}

// A checkpoint that has two heads of a query row, two key rows and a gate row each.
SourceList Interleaved() {
  return {{"w", 2, {.groups = 2, .group_rows = 4, .begin = 0, .count = 1}},
          {"w", 4, {.groups = 2, .group_rows = 4, .begin = 1, .count = 2}},
          {"plain", 1},
          {"w", 2, {.groups = 2, .group_rows = 4, .begin = 3, .count = 1}}};
}
// Rows of two columns by what Interleaved makes of rows (0, 1), (2, 3)... and a plain (90, 91).
std::vector<float> Sorted() {
  return {0, 1, 8, 9, 2, 3, 4, 5, 10, 11, 12, 13, 90, 91, 6, 7, 14, 15};
}

TEST(Transform, RowsOfInterleavedHeadsAreSortedByWhatTheyAre) {
  FakeDevice device;
  FakeSource f32;
  f32.AddF32("w", {8, 2}, Ramp(16, 0)).AddF32("plain", {1, 2}, Ramp(2, 90));
  auto map = Place({Matrix("m", 2, Interleaved())}, f32, device);
  ASSERT_TRUE(map.ok()) << map.status().message();
  ASSERT_EQ(map->Find("m")->parts.size(), 1u);
  EXPECT_EQ(Values(map->Find("m")->parts[0].weight.data), Sorted());
  // Also where the rows are packed and come through staging in pieces.
  for (const bool staged : {false, true}) {
    FakeSource f16;
    f16.AddHalf("w", DType::kF16, {8, 2}, Ramp(16, 0));
    f16.AddHalf("plain", DType::kF16, {1, 2}, Ramp(2, 90));
    device.facts_.device_memory = staged;
    map = Place({Matrix("m", 2, Interleaved())}, f16, device, {}, {.staging_bytes = 1});
    ASSERT_TRUE(map.ok()) << map.status().message();
    const uint16_t* packed = map->Find("m")->parts[0].weight.data.ptr<uint16_t>();
    for (size_t i = 0; i < Sorted().size(); ++i) {
      EXPECT_EQ(F16ToF32(static_cast<uint16_t>(~packed[i])), Sorted()[i]) << i;
    }
  }
}

TEST(Transform, RowsOfInterleavedF8KeepTheirScales) {
  FakeSource source;
  std::vector<std::byte> bits;
  for (int i = 0; i < 8; ++i) bits.push_back(std::byte{F32ToF8E4M3(1.0f)});
  source.Add("w", DType::kF8E4M3, {8, 1}, bits).AddF32("w_scale", {8, 1}, Ramp(8, 1));
  source.Add("plain", DType::kF8E4M3, {1, 1}, {std::byte{F32ToF8E4M3(1.0f)}});
  FakeDevice device;
  const auto map = Place({Matrix("m", 1, Interleaved())}, source, device);
  ASSERT_TRUE(map.ok()) << map.status().message();
  const uint16_t* values = map->Find("m")->parts[0].weight.data.ptr<uint16_t>();
  const std::vector<float> want = {1, 5, 2, 3, 6, 7, 1, 4, 8};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(BF16ToF32(values[i]), want[i]) << i;
}

TEST(Transform, TheWholeInterleavedTensorMustBeThere) {
  FakeSource source;
  source.AddF32("w", {9, 2}, Ramp(18, 0)).AddF32("plain", {1, 2}, Ramp(2, 90));
  const auto resolved = Resolve(Matrix("m", 2, Interleaved()), source, Naming::kHuggingFace);
  ASSERT_FALSE(resolved.ok());
  EXPECT_THAT(resolved.status().message(), AllOf(HasSubstr("[9, 2]"), HasSubstr("[8, 2]")));
}

TEST(Transform, TapsOfAConvolutionBecomeF32RowsOfTheirKernel) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    FakeSource source;
    if (dtype == DType::kF32) {
      source.AddF32("conv", {3, 1, 2}, Ramp(6, 1));
    } else {
      source.AddHalf("conv", dtype, {3, 1, 2}, Ramp(6, 1));
    }
    ParamSpec spec = Matrix("conv", 2, {{"conv", 3}});
    spec.role = ParamRole::kTaps;
    FakeDevice device;
    const auto map = Place({spec}, source, device);
    ASSERT_TRUE(map.ok()) << map.status().message();
    const ops::Tensor& taps = map->Find("conv")->tensor;
    EXPECT_EQ(taps.rank, 2);
    EXPECT_EQ(taps.dims[1], 2);
    EXPECT_THAT(Values(taps), ElementsAre(1, 2, 3, 4, 5, 6));
    source.AddF32("flat", {3, 2}, Ramp(6, 1));
    spec.hugging_face[0][0].name = "flat";
    EXPECT_FALSE(Resolve(spec, source, Naming::kHuggingFace).ok());
    spec.gguf = spec.hugging_face;
    EXPECT_TRUE(Resolve(spec, source, Naming::kGguf).ok());
    spec.gguf[0][0].name = "conv";
    EXPECT_FALSE(Resolve(spec, source, Naming::kGguf).ok());
  }
}

TEST(Transform, F8IsWidenedByItsScaleWhereTheDeviceKnowsNoScales) {
  const std::vector<std::byte> bits = {std::byte{F32ToF8E4M3(1.0f)}, std::byte{F32ToF8E4M3(-2.0f)},
                                       std::byte{F32ToF8E4M3(0.5f)}, std::byte{F32ToF8E4M3(3.0f)}};
  struct Case {
    std::vector<int64_t> shape;
    std::vector<float> scale;
    std::vector<float> want;
  };
  for (const Case& c : {Case{{}, {2.0f}, {2, -4, 1, 6}}, Case{{1}, {0.5f}, {0.5f, -1, 0.25f, 1.5f}},
                        Case{{2, 1}, {1.0f, 4.0f}, {1, -2, 2, 12}}}) {
    FakeSource source;
    source.Add("w", DType::kF8E4M3, {2, 2}, bits).AddF32("w_scale", c.shape, c.scale);
    FakeDevice device;
    const auto map = Place({Matrix("m", 2, {{"w", 2}})}, source, device);
    ASSERT_TRUE(map.ok()) << map.status().message();
    const ops::PackedWeight& weight = map->Find("m")->parts.front().weight;
    ASSERT_EQ(weight.dtype, DType::kBF16);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(BF16ToF32(weight.data.ptr<uint16_t>()[i]), c.want[i]);
    }
  }
}

TEST(Place, SourcesOfOneFormatBecomeOneMatrix) {
  FakeSource source;
  source.AddF32("q", {4, 2}, Ramp(8, 0)).AddF32("k", {2, 2}, Ramp(4, 8));
  source.AddF32("v", {2, 2}, Ramp(4, 12));
  FakeDevice device;
  const auto map = Place({Qkv()}, source, device);
  ASSERT_TRUE(map.ok()) << map.status().message();
  const Parameter* qkv = map->Find("qkv");
  ASSERT_EQ(qkv->parts.size(), 1u);
  EXPECT_EQ(qkv->parts[0].weight.n, 8);
  EXPECT_EQ(Values(qkv->parts[0].weight.data), Ramp(16, 0));
}

TEST(Place, SourcesOfOtherFormatsStayApart) {
  FakeSource source;
  source.AddF32("q", {4, 2}, Ramp(8, 0)).AddF32("k", {2, 2}, Ramp(4, 8));
  source.AddHalf("v", DType::kF16, {2, 2}, Ramp(4, 1));
  FakeDevice device;
  const auto map = Place({Qkv()}, source, device);
  ASSERT_TRUE(map.ok()) << map.status().message();
  const Parameter* qkv = map->Find("qkv");
  ASSERT_EQ(qkv->parts.size(), 2u);
  EXPECT_EQ(qkv->parts[0].row_begin, 0);
  EXPECT_EQ(qkv->parts[0].weight.n, 6);
  EXPECT_EQ(qkv->parts[0].linear.name(), "fake_linear");
  EXPECT_EQ(qkv->parts[1].row_begin, 6);
  EXPECT_EQ(qkv->parts[1].weight.n, 2);
  EXPECT_EQ(qkv->parts[1].linear.name(), "fake_f16_linear");
  // Packed as its kernel asks: every byte inverted.
  const ops::PackedWeight& packed = qkv->parts[1].weight;
  EXPECT_EQ(packed.layout, ops::LayoutId::kCpuInterleaved8);
  ASSERT_EQ(packed.data.size(), 8);
  const uint16_t first = static_cast<uint16_t>(~packed.data.ptr<uint16_t>()[0]);
  EXPECT_EQ(F16ToF32(first), 1.0f);
}

// Large enough to be packed by several threads, whose rows may share no row group: the sources'
// borders are no multiples of it.
TEST(Place, ThreadsPackWholeRowGroups) {
  constexpr int64_t kRows = 1031, kColumns = 1024;
  FakeSource source;
  std::vector<float> first(3 * kColumns, 1.5f), second(kRows * kColumns);
  for (size_t i = 0; i < second.size(); ++i) second[i] = static_cast<float>(i % 2039);
  source.AddHalf("a", DType::kF16, {3, kColumns}, first);
  source.AddHalf("b", DType::kF16, {kRows, kColumns}, second);
  FakeDevice device;
  device.free_bytes = 8u << 20;
  device.facts_.host_threads = 7;
  const auto map = Place({Matrix("m", kColumns, {{"a", 3}, {"b", kRows}})}, source, device);
  ASSERT_TRUE(map.ok()) << map.status().message();
  const ops::Tensor& packed = map->Find("m")->parts[0].weight.data;
  ASSERT_EQ(packed.size(), 2 * (kRows + 3) * kColumns);
  const auto at = [&](size_t i) {
    return F16ToF32(static_cast<uint16_t>(~packed.ptr<uint16_t>()[i]));
  };
  for (size_t i = 0; i < first.size(); ++i) ASSERT_EQ(at(i), 1.5f) << i;
  for (size_t i = 0; i < second.size(); ++i) ASSERT_EQ(at(first.size() + i), second[i]) << i;
}

TEST(Place, ReportsPlansReleasesAndGoesThroughCopyWhereTheHostCannotWrite) {
  FakeSource source;
  source.AddF32("q", {4, 2}, Ramp(8, 0)).AddF32("k", {2, 2}, Ramp(4, 8));
  source.AddF32("v", {2, 2}, Ramp(4, 12)).AddF32("norm", {2}, {1, 2});
  const std::vector<ParamSpec> specs = {Qkv(), Vector("norm", ParamRole::kNorm, "norm", 2)};
  FakeDevice device;
  device.facts_.device_memory = true;
  std::vector<std::pair<size_t, size_t>> seen;
  PlaceOptions options;
  options.progress = [&](size_t done, size_t total) { seen.emplace_back(done, total); };
  auto planned = PlanWeights(specs, source, device, {});
  ASSERT_TRUE(planned.ok());
  EXPECT_EQ(device.allocations, 0);
  EXPECT_TRUE(source.released.empty());
  EXPECT_EQ(planned->bytes, 72u);
  const auto map = Place(*std::move(planned), device, options);
  ASSERT_TRUE(map.ok()) << map.status().message();
  EXPECT_EQ(map->bytes(), 72u);
  EXPECT_EQ(device.copies, 2);
  EXPECT_EQ(Values(map->Find("qkv")->parts[0].weight.data), Ramp(16, 0));
  EXPECT_THAT(source.released, ElementsAre("q", "k", "v", "norm"));
  EXPECT_THAT(seen, ElementsAre(std::pair(64u, 72u), std::pair(72u, 72u)));
}

TEST(Place, OutOfMemoryIsSaidBeforeAnythingIsAllocated) {
  FakeSource source;
  source.AddF32("w", {2, 2}, Ramp(4, 0));
  FakeDevice device;
  device.free_bytes = 15;
  const auto map = Place({Matrix("m", 2, {{"w", 2}})}, source, device);
  ASSERT_FALSE(map.ok());
  EXPECT_EQ(map.status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(device.allocations, 0);
}

TEST(Place, FormatWithoutKernelIsAnErrorWithItsReasons) {
  FakeSource source;
  source.Add("w", DType::kQ2_K, {1, 256}, std::vector<std::byte>(84));
  FakeDevice device;
  const auto map = Place({Matrix("m", 256, {{"w", 1}})}, source, device);
  ASSERT_FALSE(map.ok());
  EXPECT_EQ(map.status().code(), StatusCode::kUnimplemented);
  EXPECT_THAT(map.status().message(), HasSubstr("no Q2_K"));
}

std::vector<ParamSpec> Tied() {
  ParamSpec embedding = Matrix("embedding", 2, {{"e", 3}});
  embedding.role = ParamRole::kEmbedding;
  return {embedding, Matrix("output", 2, {{"e", 3}})};
}

TEST(Place, TiedOutputReadsTheEmbeddingsMemory) {
  FakeSource source;
  source.AddF32("e", {3, 2}, Ramp(6, 0));
  FakeDevice device;
  const auto map = Place(Tied(), source, device);
  ASSERT_TRUE(map.ok()) << map.status().message();
  EXPECT_EQ(map->Find("output")->parts[0].weight.data.data, map->Find("embedding")->tensor.data);
  EXPECT_EQ(map->bytes(), 24u);
}

TEST(Place, APlanIsAValueAndMayBePlacedMoreThanOnce) {
  FakeSource source;
  source.AddF32("e", {3, 2}, Ramp(6, 0));
  FakeDevice device;
  const auto plan = PlanWeights(Tied(), source, device, {});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_EQ(plan->records.size(), 1u);
  EXPECT_EQ(plan->records.front().chosen, "fake_linear");
  const auto first = Place(*plan, device, {}), second = Place(*plan, device, {});
  ASSERT_TRUE(first.ok() && second.ok());
  for (const auto* map : {&*first, &*second}) {
    EXPECT_EQ(map->Find("output")->parts[0].weight.data.data, map->Find("embedding")->tensor.data);
    EXPECT_EQ(Values(map->Find("embedding")->tensor), Ramp(6, 0));
  }
  EXPECT_NE(first->Find("embedding")->tensor.data, second->Find("embedding")->tensor.data);
}

TEST(Place, TiedOutputThatIsPackedHasItsOwnMemory) {
  FakeSource source;
  source.AddHalf("e", DType::kF16, {3, 2}, Ramp(6, 0));
  FakeDevice device;
  const auto map = Place(Tied(), source, device);
  ASSERT_TRUE(map.ok()) << map.status().message();
  EXPECT_NE(map->Find("output")->parts[0].weight.data.data, map->Find("embedding")->tensor.data);
  EXPECT_EQ(map->bytes(), 24u);
}

TEST(Place, EmbeddingReadsTheFileWhereTheDeviceReadsHostMemory) {
  FakeSource source;
  source.AddHalf("e", DType::kF16, {3, 2}, Ramp(6, 1));
  source.maps = true;
  FakeDevice device;
  EXPECT_EQ(PlanWeights(Tied(), source, device, {})->bytes, 12u);
  auto map = Place(Tied(), source, device);
  ASSERT_TRUE(map.ok()) << map.status().message();
  EXPECT_EQ(device.allocations, 1);
  EXPECT_EQ(map->bytes(), 12u);
  const ops::Tensor& rows = map->Find("embedding")->tensor;
  EXPECT_EQ(F16ToF32(rows.ptr<uint16_t>()[5]), 6.0f);
  // An update writes there as anywhere.
  FakeSource fresh;
  fresh.AddHalf("e", DType::kF16, {3, 2}, Ramp(6, 11));
  const auto stream = device.CreateStream().value();
  ASSERT_TRUE(map->Update(device, *stream, "embedding", fresh).ok());
  EXPECT_EQ(F16ToF32(rows.ptr<uint16_t>()[5]), 16.0f);
}

TEST(Place, EmbeddingIsCopiedWhereItCannotBeReadInPlace) {
  FakeSource source;
  source.AddHalf("e", DType::kF16, {3, 2}, Ramp(6, 1));
  source.maps = true;
  FakeDevice device;
  device.facts_.device_memory = true;
  EXPECT_EQ(PlanWeights(Tied(), source, device, {})->bytes, 24u);
  device.facts_.device_memory = false;
  source.odd = true;
  const auto map = Place(Tied(), source, device);
  ASSERT_TRUE(map.ok()) << map.status().message();
  EXPECT_EQ(F16ToF32(map->Find("embedding")->tensor.ptr<uint16_t>()[5]), 6.0f);
  EXPECT_EQ(PlanWeights(Tied(), source, device, {})->bytes, 24u);
}

// Rows of a large matrix are released while it is packed, an embedding's as a whole.
TEST(Place, LargeMatrixIsReleasedRowByRow) {
  constexpr int64_t kRows = 3000, kColumns = 1024;
  FakeSource source;
  source.AddHalf("e", DType::kF16, {kRows, kColumns}, Ramp(kRows * kColumns, 0));
  FakeDevice device;
  device.free_bytes = 16u << 20;
  ParamSpec embedding = Matrix("embedding", kColumns, {{"e", kRows}});
  embedding.role = ParamRole::kEmbedding;
  ASSERT_TRUE(Place({embedding}, source, device, {}).ok());
  EXPECT_EQ(source.released_bytes, 2 * kRows * kColumns);
  source.released_bytes = 0;
  ASSERT_TRUE(Place({Matrix("m", kColumns, {{"e", kRows}})}, source, device, {}).ok());
  // Row by row, and once more as a whole.
  EXPECT_EQ(source.released_bytes, 2 * 2 * kRows * kColumns);
}

class UpdateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    source_.AddF32("q", {4, 2}, Ramp(8, 0)).AddF32("k", {2, 2}, Ramp(4, 8));
    source_.AddHalf("v", DType::kF16, {2, 2}, Ramp(4, 1));
    auto map = Place({Qkv()}, source_, device_, {});
    ASSERT_TRUE(map.ok()) << map.status().message();
    map_ = std::move(map).value();
    stream_ = std::move(device_.CreateStream()).value();
  }
  FakeSource source_;
  FakeDevice device_;
  ParameterMap map_;
  std::unique_ptr<device::Stream> stream_;
};

TEST_F(UpdateTest, WritesInPlaceAndBumpsTheVersion) {
  const Parameter* qkv = map_.Find("qkv");
  const std::byte* address = qkv->parts[0].weight.data.data;
  FakeSource fresh;
  fresh.AddF32("q", {4, 2}, Ramp(8, 100)).AddF32("k", {2, 2}, Ramp(4, 108));
  fresh.AddHalf("v", DType::kF16, {2, 2}, Ramp(4, 7));
  const Status status = map_.Update(device_, *stream_, "qkv", fresh);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(map_.Find("qkv"), qkv);
  EXPECT_EQ(qkv->parts[0].weight.data.data, address);
  EXPECT_EQ(map_.version(), 2u);
  EXPECT_EQ(Values(qkv->parts[0].weight.data), Ramp(12, 100));
  const uint16_t first = static_cast<uint16_t>(~qkv->parts[1].weight.data.ptr<uint16_t>()[0]);
  EXPECT_EQ(F16ToF32(first), 7.0f);
}

TEST_F(UpdateTest, AnotherFormatOrShapeLeavesTheOldValues) {
  const Parameter* qkv = map_.Find("qkv");
  FakeSource all_f32;
  all_f32.AddF32("q", {4, 2}, Ramp(8, 100)).AddF32("k", {2, 2}, Ramp(4, 108));
  all_f32.AddF32("v", {2, 2}, Ramp(4, 112));
  EXPECT_EQ(map_.Update(device_, *stream_, "qkv", all_f32).code(), StatusCode::kInvalidArgument);
  FakeSource swapped;
  swapped.AddHalf("q", DType::kF16, {4, 2}, Ramp(8, 100))
      .AddHalf("k", DType::kF16, {2, 2}, Ramp(4, 0));
  swapped.AddF32("v", {2, 2}, Ramp(4, 112));
  EXPECT_EQ(map_.Update(device_, *stream_, "qkv", swapped).code(), StatusCode::kInvalidArgument);
  FakeSource small;
  small.AddF32("q", {4, 1}, Ramp(4, 100)).AddF32("k", {2, 2}, Ramp(4, 108));
  small.AddHalf("v", DType::kF16, {2, 2}, Ramp(4, 7));
  EXPECT_EQ(map_.Update(device_, *stream_, "qkv", small).code(), StatusCode::kBadModel);
  EXPECT_EQ(map_.Update(device_, *stream_, "nothing", small).code(), StatusCode::kNotFound);
  EXPECT_EQ(map_.version(), 1u);
  EXPECT_EQ(Values(qkv->parts[0].weight.data), Ramp(12, 0));
}

}  // namespace
}  // namespace sluice::weights
