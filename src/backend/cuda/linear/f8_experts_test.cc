// Products of experts with few rows on a GPU: the bits of the kernels for any number of rows, and
// of what gates open for as codes those of the ops for the parts. Where there is no GPU these tests
// say so and pass.
#include <algorithm>
#include <numeric>

#include "backend/cuda/activation/kind.h"
#include "backend/cuda/cuda_test.h"
#include "backend/cuda/linear/f8_experts.h"
#include "backend/cuda/linear/f8_product.h"
#include "backend/cuda/linear/grouped_gate_impls.h"
#include "ops/conformance_case.h"
#include "ops/grouped_gate.h"

namespace sluice::cuda {
namespace {

using ops::Array;
using ops::GroupedGate;
using ops::GroupedLinear;
using ops::GroupQuant;
using ops::Tensor;

constexpr int kExperts = 7;
constexpr int64_t kTokens = 60;  // of x

// Rows of each expert: none, one, as many as a kernel takes at a time, more, and all; fewer experts
// than thread blocks, and places that are nobody's.
const std::vector<std::vector<int32_t>> kRoutings = {{1, 0, 0, 0, 0, 0, 0},
                                                     {3, 8, 9, 0, 16, 17, 32},
                                                     {0, 33, 60, 1, 0, 31, 7},
                                                     {2, 2, 2, 2, 2, 2, 2}};

class F8ExpertsTest : public CudaTest {
 protected:
  void Make(int64_t n, int64_t k) {
    desc_ = {.each = {.weight = DType::kF8E4M3,
                      .weight_scales = ops::WeightScales::kBlock,
                      .x_scales = ops::ActivationScales::kBlock,
                      .activation = DType::kBF16,
                      .n = n,
                      .k = k},
             .experts = kExperts,
             .top_k = 7};
    const ops::Linear::Desc stack = desc_.Stacked();
    Array w(DType::kU8, {stack.n, k}), scales(DType::kF32, ops::ScaleShape(stack));
    for (size_t i = 0; i < w.Count(); ++i)  // finite ones
      w.tensor().data[i] = static_cast<std::byte>((noise_.Next() & 0xbf) | 4);
    for (size_t i = 0; i < scales.Count(); ++i) scales.Set(i, 0.02f + 0.01f * noise_.Value());
    weight_ = {memory_->Upload(w), DType::kF8E4M3, ops::LayoutId::kRowMajor, stack.n, k};
    weight_.scales = memory_->Upload(scales);
    x_ = memory_->Upload(ops::Filled(noise_, DType::kBF16, {kTokens, k}));
  }
  // Places for a routing, and three that nobody has.
  GroupedLinear::Args Route(const std::vector<int32_t>& counts) {
    std::vector<int32_t> starts = {0}, tokens;
    for (const int32_t count : counts) {
      starts.push_back(starts.back() + count);
      for (int32_t i = 0; i < count; ++i)
        tokens.push_back((7 * static_cast<int32_t>(starts.size()) + i) % kTokens);
    }
    tokens.insert(tokens.end(), 3, 2000000000);
    places_ = static_cast<int64_t>(tokens.size());
    GroupedLinear::Args args = {.x = x_, .weight = &weight_, .out = {}};
    args.tokens = memory_->Upload(Array::Ints(tokens));
    args.starts = memory_->Upload(Array::Ints(starts));
    return args;
  }
  Tensor Room(DType type, int64_t rows, int64_t width) {
    return memory_->Upload(ops::Untouched(type, {rows, width}));
  }
  Array Read(const Tensor& t) {
    return memory_->Download(t, Array(t.dtype, {t.dims[0], t.dims[1]}));
  }
  // By the kernels for any number of rows.
  Tensor Products(GroupedLinear::Args args) {
    args.out = Room(OutDType(desc_.each), places_, desc_.each.n);
    const Grouping grouping = {kExperts, args.starts.ptr<int32_t>(), args.tokens.ptr<int32_t>()};
    const ops::Linear::Args each = {.x = args.x, .weight = args.weight, .out = args.out};
    const F8Plan plan = PlanF8({.m = places_,
                                .n = desc_.each.n,
                                .k = desc_.each.k,
                                .compute_units = device_->facts().compute_units,
                                .experts = kExperts});
    const auto codes = QuantizeF8(*stream_, desc_.each, each, &grouping);
    CHECK(codes.ok(), codes.status().message());
    const Status status = MultiplyF8(*stream_, desc_.each, each, *codes, plan, &grouping);
    CHECK(status.ok(), status.message());
    return args.out;
  }
  // Nothing where the kernel does not take so long rows.
  bool Multiply(const F8ExpertsKernel& kernel, const GroupedLinear::Args& args,
                const F8ExpertOutputs& outputs) {
    auto plan = PlanF8ExpertsWith(kernel, {.places = places_,
                                           .n = desc_.each.n,
                                           .k = desc_.each.k,
                                           .experts = kExperts,
                                           .gated = !outputs.scales.empty()});
    if (!plan) return false;
    plan->all_taken = places_ % 2 == 0;  // a guess, right or wrong
    const Status status = MultiplyF8Experts(*stream_, desc_, args, *plan, outputs);
    CHECK(status.ok(), status.message());
    return true;
  }

  GroupedLinear::Desc desc_;
  ops::TestNoise noise_{11};
  ops::PackedWeight weight_;
  Tensor x_;
  int64_t places_ = 0;
};

TEST_F(F8ExpertsTest, ProductsHaveTheBitsOfTheKernelsForAnyRows) {
  int met = 0;
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{256, 256}, {2048, 768}, {512, 7168}}) {
    Make(n, k);
    for (const bool in_f32 : {false, true}) {
      desc_.each.f32_out = in_f32;
      for (const std::vector<int32_t>& routing : kRoutings) {
        const GroupedLinear::Args args = Route(routing);
        const Array expected = Read(Products(args));
        for (const F8ExpertsKernel& kernel : F8ExpertsKernels()) {
          const Tensor out = Room(OutDType(desc_.each), places_, n);
          if (!Multiply(kernel, args, {.out = out})) continue;
          ++met;
          EXPECT_EQ(Read(out), expected) << kernel.function << " " << n << " x " << k;
        }
      }
    }
    memory_->FreeAll();
  }
  EXPECT_EQ(met, 2 * 4 * 8);
}

TEST_F(F8ExpertsTest, GatesHaveTheBitsOfTheirParts) {
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{256, 512}, {1536, 2048}}) {
    Make(n, k);
    for (const ops::Activation kind : {ops::Activation::kSilu, ops::Activation::kClampedSwiglu}) {
      const GroupedGate::Desc gate = {.products = desc_, .kind = kind};
      const auto parts = ops::Bind<GroupQuant>(device_->ops(), gate.gate());
      ASSERT_TRUE(parts.ok());
      for (const std::vector<int32_t>& routing : kRoutings) {
        const GroupedLinear::Args args = Route(routing);
        const int64_t groups = gate.gate().groups();
        Tensor counts = args.starts.Rows(kExperts, 1);
        const Tensor codes = Room(DType::kF8E4M3, places_, n / 2),
                     scales = Room(DType::kF32, groups, places_);
        ASSERT_TRUE(
            (*parts)(*stream_,
                     {.x = Products(args), .counts = counts, .codes = codes, .scales = scales})
                .ok());
        const Array expected = Read(codes), expected_scales = Read(scales);
        for (const F8ExpertsKernel& kernel : F8ExpertsKernels()) {
          const Tensor got = Room(DType::kF8E4M3, places_, n / 2),
                       got_scales = Room(DType::kF32, groups, places_);
          ASSERT_TRUE(
              Multiply(kernel, args, {.out = got, .scales = got_scales, .kind = *KindOf(kind)}));
          EXPECT_EQ(Read(got), expected) << kernel.gated_function << " " << n << " x " << k;
          EXPECT_EQ(Read(got_scales), expected_scales) << kernel.gated_function;
        }
      }
    }
    memory_->FreeAll();
  }
}

TEST_F(F8ExpertsTest, AGraphReplaysIt) {
  Make(512, 512);
  const GroupedLinear::Args args = Route({10, 10, 10, 10, 10, 10, 10});
  const GroupedGate::Desc desc = {.products = desc_};
  const auto bound = ops::Bind<GroupedGate>(device_->ops(), desc);
  ASSERT_TRUE(bound.ok()) << bound.status().message();
  const Tensor codes = Room(DType::kF8E4M3, places_, 256), scales = Room(DType::kF32, 2, places_);
  const GroupedGate::Args call = {.x = args.x,
                                  .tokens = args.tokens,
                                  .starts = args.starts,
                                  .weight = args.weight,
                                  .codes = codes,
                                  .scales = scales};
  const auto body = [&](device::Stream& stream) { return (*bound)(stream, call); };
  const auto graph = device_->Capture(*stream_, nullptr, body);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  for (const std::vector<int32_t>& counts :
       {kRoutings[3], std::vector<int32_t>{0, 0, 60, 0, 0, 5, 0}, kRoutings[0]}) {
    std::vector<int32_t> starts = {0};
    for (const int32_t count : counts) starts.push_back(starts.back() + count);
    memory_->Write(args.starts, Array::Ints(starts));
    const Array untouched = ops::Untouched(DType::kF8E4M3, {places_, 256});
    memory_->Write(codes, untouched);
    ASSERT_TRUE(body(*stream_).ok());
    const Array expected = Read(codes), expected_scales = Read(scales);
    EXPECT_FALSE(expected == untouched);
    memory_->Write(codes, untouched);
    ASSERT_TRUE((*graph)->Replay(*stream_, {}).ok());
    EXPECT_EQ(Read(codes), expected);
    EXPECT_EQ(Read(scales), expected_scales);
  }
}

TEST_F(F8ExpertsTest, ManyCasesAgreeWithTheReference) {
  EXPECT_EQ(Verify(*device_, &RegisterGroupedGate, 60), "");
}

}  // namespace
}  // namespace sluice::cuda
