// Linears of a captured graph that became one launch give the bits that the ops give one by one.
#include "backend/xpu/linear/chain.h"

#include <gtest/gtest.h>

#include <optional>

#include "backend/xpu/launch.h"
#include "backend/xpu/linear/pack.h"
#include "backend/xpu/xpu_fixture.h"
#include "ops/activation.h"
#include "ops/formats/rows.h"
#include "ops/host_array.h"
#include "ops/linear.h"
#include "ops/norm.h"

namespace sluice::xpu {
namespace {

constexpr int64_t kHidden = 96, kFfn = 160, kRowsMax = 6;

class ChainTest : public XpuTest {
 protected:
  void SetUp() override {
    XpuTest::SetUp();
    weights_.clear();
    if (!device_->facts().on_host_processor) GTEST_SKIP() << "no chains on this device";
    hidden_ = Upload(Noise(kRowsMax * kHidden, 1));
    normed_ = Upload(std::vector<float>(kRowsMax * kHidden));
    gate_up_ = Upload(std::vector<float>(kRowsMax * 2 * kFfn));
    active_ = Upload(std::vector<float>(kRowsMax * kFfn));
    qkv_ = Upload(std::vector<float>(kRowsMax * 40));
    scale_ = Upload(Noise(kHidden, 2));
    AddWeight(kHidden, kHidden, true, 3);
    AddWeight(2 * kFfn, kHidden, false, 4);
    AddWeight(kHidden, kFfn, true, 5);
    AddWeight(40, kHidden, false, 6);
  }
  std::vector<float> Noise(size_t count, uint64_t seed) {
    ops::TestNoise noise(seed);
    std::vector<float> values(count);
    for (float& value : values) value = noise.Value();
    return values;
  }
  void AddWeight(int64_t n, int64_t k, bool residual, uint64_t seed) {
    Weight& added = weights_.emplace_back();
    added.desc = {.weight = DType::kQ4_1, .n = n, .k = k, .residual = residual};
    const std::vector<float> values = Noise(static_cast<size_t>(n * k), seed);
    std::vector<std::byte> rows(RowBytes(DType::kQ4_1, values.size()));
    ops::QuantizeRow(DType::kQ4_1, values, rows.data());
    std::vector<std::byte> packed(PackedBytes(added.desc));
    ASSERT_TRUE(PackNibbles(added.desc, 0, rows, packed).ok());
    added.bytes = Upload(packed);
    added.packed = {
        ops::Dense(added.bytes.view(), DType::kU8, {static_cast<int64_t>(packed.size())}),
        DType::kQ4_1, ops::LayoutId::kXpuNibbles16, n, k};
  }

  static ops::Tensor Rows(const device::Buffer& buffer, int64_t m, int64_t width) {
    return ops::Dense(buffer.view(), DType::kF32, {m, width});
  }
  template <class Op>
  Status Run(device::Stream& stream, const typename Op::Desc& desc, const typename Op::Args& args) {
    SLUICE_ASSIGN_OR_RETURN(const auto bound, ops::Bind<Op>(device_->ops(), desc));
    return bound(stream, args);
  }
  Status Linear(device::Stream& stream, size_t i, const ops::Tensor& x, const ops::Tensor& out) {
    ops::Linear::Args args = {.x = x, .weight = &weights_[i].packed, .out = out};
    if (weights_[i].desc.residual) args.residual = out;
    return Run<ops::Linear>(stream, weights_[i].desc, args);
  }
  Status Norm(device::Stream& stream, int64_t m) {
    return Run<ops::Norm>(stream, {.hidden = kHidden},
                          {.x = Rows(hidden_, m, kHidden),
                           .weight = ops::Dense(scale_.view(), DType::kF32, {kHidden}),
                           .out = Rows(normed_, m, kHidden)});
  }
  // What lies between the attentions of two layers.
  Status Body(device::Stream& stream, int64_t m) {
    const ops::Tensor hidden = Rows(hidden_, m, kHidden), normed = Rows(normed_, m, kHidden);
    const ops::Tensor gate_up = Rows(gate_up_, m, 2 * kFfn), active = Rows(active_, m, kFfn);
    SLUICE_RETURN_IF_ERROR(Linear(stream, 0, normed, hidden));
    SLUICE_RETURN_IF_ERROR(Norm(stream, m));
    SLUICE_RETURN_IF_ERROR(Linear(stream, 1, normed, gate_up));
    SLUICE_RETURN_IF_ERROR(
        Run<ops::GatedActivation>(stream, {.width = kFfn}, {.gate_up = gate_up, .out = active}));
    SLUICE_RETURN_IF_ERROR(Linear(stream, 2, active, hidden));
    SLUICE_RETURN_IF_ERROR(Norm(stream, m));
    return Linear(stream, 3, normed, Rows(qkv_, m, 40));
  }
  std::vector<std::vector<float>> All() {
    std::vector<std::vector<float>> all;
    for (const auto* buffer : {&hidden_, &normed_, &gate_up_, &active_, &qkv_})
      all.push_back(Download<float>(*buffer));
    return all;
  }

  struct Weight {
    ops::Linear::Desc desc;
    device::Buffer bytes;
    ops::PackedWeight packed;
  };
  device::Buffer hidden_, normed_, gate_up_, active_, qkv_, scale_;
  std::vector<Weight> weights_;
};

TEST_F(ChainTest, OneLaunchGivesTheBitsOfSeven) {
  for (int64_t m : {1, 3, 6}) {
    SetUp();
    const auto before = All();
    for (int round = 0; round < 3; ++round) ASSERT_TRUE(Body(*stream_, m).ok());
    const auto one_by_one = All();
    EXPECT_NE(one_by_one, before);

    SetUp();
    const auto graph = device_->Capture(*stream_, nullptr,
                                        [&](device::Stream& stream) { return Body(stream, m); });
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    const uint64_t kernels = stream_->counts().kernels;
    for (int round = 0; round < 3; ++round) ASSERT_TRUE((*graph)->Replay(*stream_, {}).ok());
    EXPECT_EQ(stream_->counts().kernels - kernels, 3u);
    EXPECT_EQ(All(), one_by_one) << m;
  }
}

TEST_F(ChainTest, ANormThatIsReadByNoLinearIsLaunchedItself) {
  const auto graph = device_->Capture(*stream_, nullptr, [&](device::Stream& stream) {
    SLUICE_RETURN_IF_ERROR(Norm(stream, 2));
    return Linear(stream, 2, Rows(active_, 2, kFfn), Rows(hidden_, 2, kHidden));
  });
  ASSERT_TRUE(graph.ok());
  const uint64_t kernels = stream_->counts().kernels;
  ASSERT_TRUE((*graph)->Replay(*stream_, {}).ok());
  EXPECT_EQ(stream_->counts().kernels - kernels, 2u);
}

TEST_F(ChainTest, ANormIsNotTakenInByALinearThatOverwritesWhatItReads) {
  // Q, K and V over the rows that the norm reads: another work-group might still need them.
  const auto body = [&](device::Stream& stream) {
    SLUICE_RETURN_IF_ERROR(Norm(stream, 2));
    return Linear(stream, 0, Rows(normed_, 2, kHidden), Rows(hidden_, 2, kHidden));
  };
  ASSERT_TRUE(body(*stream_).ok());
  const auto one_by_one = All();
  SetUp();
  const auto graph = device_->Capture(*stream_, nullptr, body);
  ASSERT_TRUE(graph.ok());
  const uint64_t kernels = stream_->counts().kernels;
  ASSERT_TRUE((*graph)->Replay(*stream_, {}).ok());
  EXPECT_EQ(stream_->counts().kernels - kernels, 2u);
  EXPECT_EQ(All(), one_by_one);
}

TEST(LinearChain, TakesWhatIsOfItsKindUntilItIsFull) {
  LinearChain chain;
  chain.options = "-D A";
  chain.m = 2;
  EXPECT_TRUE(chain.Takes("-D A", 2, {}));
  EXPECT_FALSE(chain.Takes("-D B", 2, {}));
  EXPECT_FALSE(chain.Takes("-D A", 1, {}));
  RowMaker gelu;
  gelu.kind = RowMaker::Kind::kGated;
  gelu.activation = 1;
  EXPECT_TRUE(chain.Takes("-D A", 2, gelu));
  chain.activation = 0;
  EXPECT_FALSE(chain.Takes("-D A", 2, gelu));
  chain.phases.resize(kChainPhases);
  EXPECT_FALSE(chain.Takes("-D A", 2, {}));
}

TEST(CanMakeBeside, RowsAreMadeNeitherInWhatTheyAreMadeFromNorWhileThatIsWritten) {
  std::vector<float> memory(64);
  const auto at = [&](size_t i) { return reinterpret_cast<std::byte*>(memory.data() + i); };
  RowMaker maker;
  maker.kind = RowMaker::Kind::kRmsNorm;
  maker.rows = 2;
  maker.width = 8;
  maker.source_stride = maker.out_stride = 8;
  maker.source = at(16);
  const auto can = [&](size_t made, size_t out) {
    maker.out = at(made);
    return CanMakeBeside(maker, at(out), 4, 4);  // [2, 4]
  };
  EXPECT_TRUE(can(0, 32));
  EXPECT_TRUE(can(32, 8));
  for (size_t made : {1, 16, 31}) EXPECT_FALSE(can(made, 48)) << made;
  for (size_t out : {9, 16, 31}) EXPECT_FALSE(can(48, out)) << out;
  maker.kind = RowMaker::Kind::kGated;  // of twice the width
  EXPECT_FALSE(can(32, 48));
}

// Each way to add byte products; a processor has the first that its compiler knows.
TEST_F(ChainTest, ByteProductsAreTheSameOnEveryInstructionSet) {
  constexpr int64_t m = 3;
  const Weight& weight = weights_[0];
  const auto in = Upload(Noise(kRowsMax * kHidden, 9));
  std::optional<std::vector<float>> first;
  for (const char* without : {"", " -D WITHOUT_AVX512BW", " -D WITHOUT_AVX512BW -D WITHOUT_AVX2"}) {
    const auto out = Upload(std::vector<float>(m * kHidden));
    const std::string options = StrCat(
        "-D ITEMS=1 -D AHEAD=0 -D ACT=f32 -D OUT=f32 -D BIAS=0 -D RESIDUAL=0 -D SUB=32 -D OFFSET=0 "
        "-D MINIMUM=1 -D SCALE=f16 -D K_MAX=2048",
        without);
    const std::byte* const none = nullptr;
    const LaunchShape shape{{2, 1, 1}, 1};
    ASSERT_TRUE(Launch(*stream_, {"linear/any_int8_linear", "any_int8_linear_4"}, options, shape,
                       in.view().data, uint64_t{kHidden}, weight.bytes.view().data,
                       uint64_t{PackedShapeOf(DType::kQ4_1, kHidden).group_bytes}, none, none,
                       uint64_t{0}, out.view().data, uint64_t{kHidden}, int32_t{kHidden},
                       int32_t{m}, int32_t{kHidden}, int32_t{3})
                    .ok());
    const std::vector<float> got = Download<float>(out);
    if (!first) first = got;
    EXPECT_EQ(got, *first) << without;
  }
  EXPECT_NE(*first, std::vector<float>(m * kHidden));
}

}  // namespace
}  // namespace sluice::xpu
