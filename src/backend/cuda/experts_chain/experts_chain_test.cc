// Experts chains on the first CUDA device: against the reference, and bit by bit against the
// device's own ops for the parts.
#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "backend/cuda/cuda_test.h"
#include "backend/cuda/dense_chain/launches_fixture.h"
#include "backend/cuda/experts_chain/config.h"
#include "backend/cuda/experts_chain/impls.h"
#include "backend/cuda/experts_chain/params.h"
#include "ops/norm.h"

namespace sluice::cuda {
namespace {

using ops::Array;
using ops::ExpertsChain;
using ops::Tensor;

constexpr int kUnits = 132;

ExpertsChain::Desc DescOf(int64_t attended, int64_t hidden, int64_t width, int64_t qkv, int experts,
                          int top_k) {
  ExpertsChain::Desc desc = {.weight = DType::kF8E4M3,
                             .weight_scales = ops::WeightScales::kBlock,
                             .x_scales = ops::ActivationScales::kBlock,
                             .router = DType::kBF16,
                             .activation = DType::kBF16,
                             .attended = attended,
                             .hidden = hidden,
                             .width = width,
                             .qkv = qkv};
  desc.route.experts = experts;
  desc.route.top_k = top_k;
  desc.route.renormalize = true;
  return desc;
}

// Of a published model.
const ExpertsChain::Desc kQwen3 = DescOf(4096, 2048, 768, 5120, 128, 8);

TEST(ExpertsChainConfig, TakesWhatThePublishedModelHasAndSaysWhatItDoesNot) {
  EXPECT_TRUE(SupportsExpertsChain(kQwen3, kUnits).ok);
  ExpertsChain::Desc other = kQwen3;
  other.width = 640;
  EXPECT_FALSE(SupportsExpertsChain(other, kUnits).ok);
  other = kQwen3;
  other.route.experts = 300;
  EXPECT_FALSE(SupportsExpertsChain(other, kUnits).ok);
  other = kQwen3;
  other.router = DType::kF32;
  EXPECT_FALSE(SupportsExpertsChain(other, kUnits).ok);
  other = kQwen3;
  other.route.top_k = 17;
  EXPECT_FALSE(SupportsExpertsChain(other, kUnits).ok);
  EXPECT_FALSE(SupportsExpertsChain(kQwen3, 16).ok);
}

TEST(ExpertsChainConfig, SharedMemoryHoldsEachPart) {
  for (const ExpertsChain::Desc& desc :
       {kQwen3, DescOf(512, 512, 256, 0, 16, 1), DescOf(8192, 4096, 1536, 9216, 128, 8)}) {
    ASSERT_TRUE(SupportsExpertsChain(desc, kUnits).ok) << desc.ToString();
    const ExpertsChainPlan plan = PlanExpertsChain(desc);
    EXPECT_GE(plan.stages, 5) << desc.ToString();
    EXPECT_LE(plan.shared_bytes, 227 * 1024);
    EXPECT_EQ(plan.row_at % 1024, 0);
    EXPECT_EQ(plan.code_bytes % 1024, 0);
    EXPECT_EQ(plan.routed_at % 8, 0);
    EXPECT_GE(plan.code_bytes, plan.row_at + RouterRowBytes(static_cast<int>(desc.hidden)));
    EXPECT_GE(plan.routed_at, plan.stages * kChainStageBytes + plan.code_bytes + ChainRestBytes(2));
  }
}

using ExpertsChainTest = CudaTest;

TEST_F(ExpertsChainTest, AgreesWithTheReference) {
  EXPECT_EQ(Verify(*device_, &RegisterExpertsChain, 30), "");
}

// One layer's weights and rows on the device, and both ways to run it.
class Layer {
 public:
  Layer(DeviceMemory& memory, const ExpertsChain::Desc& desc) : memory_(memory), desc_(desc) {
    const int64_t experts = desc.route.experts, top_k = desc.route.top_k;
    args_.attended = Rows(1, desc.attended);
    args_.residual = Rows(1, desc.hidden);
    args_.w_o = Weight(desc.hidden, desc.attended);
    args_.w_router = Router();
    args_.w_gate_up = Weight(experts * 2 * desc.width, desc.hidden);
    args_.w_down = Weight(experts * desc.hidden, desc.width);
    args_.mlp_norm = Filled(DType::kF32, {desc.hidden});
    args_.middle = Rows(1, desc.hidden);
    args_.logits = Filled(DType::kF32, {1, experts});
    args_.gated = Rows(top_k, desc.width);
    args_.out = Rows(1, desc.hidden);
    args_.counts = memory.Upload(Array::Ints(std::vector<int32_t>(experts, 5)));
    args_.counted = memory.Upload(Array::Ints({1}));
    normed_ = Rows(1, desc.hidden);
    gate_up_ = Rows(top_k, 2 * desc.width);
    given_ = Filled(DType::kF32, {top_k, desc.hidden});
    ids_ = memory.Upload(Array::Ints({1, top_k}, std::vector<int32_t>(top_k)));
    places_ = memory.Upload(Array::Ints({1, top_k}, std::vector<int32_t>(top_k)));
    tokens_ = memory.Upload(Array::Ints(std::vector<int32_t>(top_k)));
    starts_ = memory.Upload(Array::Ints(std::vector<int32_t>(experts + 1)));
    weights_of_ = Filled(DType::kF32, {1, top_k});
    if (desc.qkv == 0) return;
    args_.w_qkv = Weight(desc.qkv, desc.hidden);
    args_.next_norm = Filled(DType::kF32, {desc.hidden});
    args_.qkv = Rows(1, desc.qkv);
  }

  Status RunOne(device::Stream& stream) const { return Run<ExpertsChain>(stream, desc_, args_); }
  Status RunParts(device::Stream& stream) const {
    const ExpertsChain::Desc& d = desc_;
    SLUICE_RETURN_IF_ERROR(Run<ops::Linear>(stream, ProductOf(d, d.hidden, d.attended, true),
                                            {.x = args_.attended,
                                             .weight = args_.w_o,
                                             .residual = args_.residual,
                                             .out = args_.middle}));
    SLUICE_RETURN_IF_ERROR(Norm(stream, args_.middle, args_.mlp_norm));
    SLUICE_RETURN_IF_ERROR(Run<ops::Linear>(
        stream, RouterOf(d), {.x = normed_, .weight = args_.w_router, .out = args_.logits}));
    SLUICE_RETURN_IF_ERROR(Run<ops::RouteExperts>(
        stream, d.route,
        {.logits = args_.logits, .bias = {}, .scales = {}, .ids = ids_, .weights = weights_of_}));
    SLUICE_RETURN_IF_ERROR(
        Run<ops::GroupExperts>(stream, {.experts = d.route.experts, .top_k = d.route.top_k},
                               {.ids = ids_,
                                .starts = starts_,
                                .tokens = tokens_,
                                .places = places_,
                                .counts = args_.counts,
                                .counted = args_.counted}));
    SLUICE_RETURN_IF_ERROR(Run<ops::GroupedLinear>(stream, FirstProductsOf(d),
                                                   {.x = normed_,
                                                    .tokens = tokens_,
                                                    .starts = starts_,
                                                    .weight = args_.w_gate_up,
                                                    .out = gate_up_}));
    SLUICE_RETURN_IF_ERROR(Run<ops::GatedActivation>(stream, {d.kind, d.activation, d.width},
                                                     {gate_up_, args_.gated}));
    SLUICE_RETURN_IF_ERROR(Run<ops::GroupedLinear>(
        stream, SecondProductsOf(d),
        {.x = args_.gated, .starts = starts_, .weight = args_.w_down, .out = given_}));
    SLUICE_RETURN_IF_ERROR(Run<ops::CombineExperts>(
        stream, {.out = d.activation, .top_k = d.route.top_k, .width = d.hidden, .residual = true},
        {.y = given_,
         .weights = weights_of_,
         .places = places_,
         .residual = args_.middle,
         .out = args_.out}));
    if (d.qkv == 0) return OkStatus();
    SLUICE_RETURN_IF_ERROR(Norm(stream, args_.out, args_.next_norm));
    return Run<ops::Linear>(stream, ProductOf(d, d.qkv, d.hidden, false),
                            {.x = normed_, .weight = args_.w_qkv, .out = args_.qkv});
  }

  // Everything that a run gives, on the host.
  std::vector<Array> Outputs() const {
    std::vector<Array> outputs;
    for (const Tensor* t : Given())
      outputs.push_back(memory_.Download(*t, Array(t->dtype, {1, t->dims[1]})));
    return outputs;
  }
  void Spoil() const {
    for (const Tensor* t : Given()) {
      Array array(t->dtype, {1, t->dims[1]});
      array.Fill(777.0f);
      memory_.Write(*t, array);
    }
  }
  Array Counts() const {
    return memory_.Download(args_.counts, Array::Ints(std::vector<int32_t>(desc_.route.experts)));
  }
  // Other logits, and with them other experts.
  void TakeOtherRow() {
    Array row(DType::kBF16, {1, desc_.attended});
    noise_.Fill(row, 1.0f);
    memory_.Write(args_.attended, row);
  }

 private:
  std::vector<const Tensor*> Given() const {
    std::vector<const Tensor*> given = {&args_.middle, &args_.logits, &args_.out};
    if (desc_.qkv > 0) given.push_back(&args_.qkv);
    return given;
  }
  template <class Op>
  Status Run(device::Stream& stream, const typename Op::Desc& desc,
             const typename Op::Args& args) const {
    SLUICE_ASSIGN_OR_RETURN(const auto op, ops::Bind<Op>(memory_.device().ops(), desc));
    return op(stream, args);
  }
  Tensor Filled(DType dtype, std::vector<int64_t> dims) {
    Array array(dtype, std::move(dims));
    noise_.Fill(array, 1.0f);
    return memory_.Upload(array);
  }
  Tensor Rows(int64_t rows, int64_t width) { return Filled(DType::kBF16, {rows, width}); }
  const ops::PackedWeight* Router() {
    const int64_t n = desc_.route.experts, k = desc_.hidden;
    weights_.push_back(
        {Filled(DType::kBF16, {n, k}), DType::kBF16, ops::LayoutId::kRowMajor, n, k});
    return &weights_.back();
  }
  const ops::PackedWeight* Weight(int64_t n, int64_t k) {
    Array codes(DType::kF8E4M3, {n, k}), scales(DType::kF32, {(n + 127) / 128, (k + 127) / 128});
    std::byte* const data = codes.tensor().data;
    const size_t count = codes.Count();
    for (size_t i = 0; i < count; ++i)  // finite ones
      data[i] = static_cast<std::byte>((noise_.Next() & 0xbf) | 4);
    for (size_t i = 0; i < scales.Count(); ++i) scales.Set(i, 0.03f + 0.01f * noise_.Value());
    weights_.push_back({memory_.Upload(codes), DType::kF8E4M3, ops::LayoutId::kRowMajor, n, k});
    weights_.back().scales = memory_.Upload(scales);
    return &weights_.back();
  }
  Status Norm(device::Stream& stream, const Tensor& x, const Tensor& weight) const {
    return Run<ops::Norm>(
        stream, {.activation = desc_.activation, .hidden = desc_.hidden, .eps = desc_.eps},
        {.x = x, .weight = weight, .out = normed_});
  }

  DeviceMemory& memory_;
  const ExpertsChain::Desc desc_;
  ops::TestNoise noise_{7};
  std::deque<ops::PackedWeight> weights_;
  ExpertsChain::Args args_;
  Tensor normed_, gate_up_, given_, ids_, places_, tokens_, starts_, weights_of_;
};

// Slabs that no thread block has, one, or several; second products whose last stage is ragged.
TEST_F(ExpertsChainTest, GivesTheBitsOfItsParts) {
  for (const ExpertsChain::Desc& desc :
       {DescOf(512, 512, 256, 16, 16, 2), DescOf(2048, 2560, 1536, 0, 64, 6), kQwen3,
        DescOf(1024, 4096, 512, 3072, 32, 4)}) {
    Layer layer(*memory_, desc);
    for (int row = 0; row < 4; ++row) {
      Array before = layer.Counts();
      ASSERT_TRUE(layer.RunParts(*stream_).ok());
      const std::vector<Array> expected = layer.Outputs();
      Array once = layer.Counts();
      layer.Spoil();
      const Status status = layer.RunOne(*stream_);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_TRUE(layer.Outputs() == expected) << desc.ToString() << ", row " << row;
      Array twice = layer.Counts();
      for (size_t e = 0; e < twice.Count(); ++e)
        EXPECT_EQ(twice.Int(e) - once.Int(e), once.Int(e) - before.Int(e)) << e;
      layer.TakeOtherRow();
    }
    memory_->FreeAll();
  }
}

// In a graph, one launch behind the other, of chains with and without a next layer.
TEST_F(ExpertsChainTest, LaunchesFollowOneAnother) {
  const Layer with(*memory_, DescOf(1024, 1024, 512, 1536, 32, 4)),
      without(*memory_, DescOf(1024, 1024, 768, 0, 16, 8));
  ExpectLaunchesFollow(*device_, *stream_, with, without);
}

}  // namespace
}  // namespace sluice::cuda
