// Products of experts on a GPU; where there is none these tests say so and pass. Conformance holds
// small ones against the reference; here are tiles, every kernel in F8, and graphs.
#include <cstring>
#include <numeric>
#include <set>

#include "backend/cuda/cuda_test.h"
#include "backend/cuda/linear/f8_product.h"
#include "backend/cuda/linear/grouped_impls.h"
#include "ops/grouped_linear.h"

namespace sluice::cuda {
namespace {

using ops::ActivationScales;
using ops::Array;
using ops::GroupedLinear;
using ops::WeightScales;

constexpr int kExperts = 4;
constexpr int64_t kRows = 100;  // of x; each expert may have all of them

struct Types {
  DType weight, activation;
  WeightScales weight_scales = WeightScales::kNone;
  ActivationScales x_scales = ActivationScales::kNone;
};
constexpr Types kTypes[] = {
    {DType::kBF16, DType::kBF16},
    {DType::kF16, DType::kF16},
    {DType::kF32, DType::kF32},
    {DType::kF8E4M3, DType::kBF16},
    {DType::kQ4_K, DType::kBF16},
    {DType::kQ8_0, DType::kBF16},
    {DType::kMXFP4, DType::kBF16},
    {DType::kF8E4M3, DType::kBF16, WeightScales::kBlock, ActivationScales::kBlock},
    {DType::kF8E4M3, DType::kBF16, WeightScales::kRow, ActivationScales::kRow}};

class GroupedLinearKernels : public CudaTest, public ::testing::WithParamInterface<Types> {
 protected:
  // Rows enough that the tiles of a device with so many multiprocessors are met.
  void Make(int64_t n, int64_t k) {
    const Types& types = GetParam();
    desc_ = {.each = {.weight = types.weight,
                      .weight_scales = types.weight_scales,
                      .x_scales = types.x_scales,
                      .activation = types.activation,
                      .n = n,
                      .k = k},
             .experts = kExperts};
    const ops::Linear::Desc stack = desc_.Stacked();
    // Bits whose numbers and scales are finite.
    ops::TestNoise noise(7);
    w_ = Array(DType::kU8, {stack.n, static_cast<int64_t>(RowBytes(types.weight, k))});
    for (size_t i = 0; i < w_.Count(); ++i)
      w_.tensor().data[i] = static_cast<std::byte>((noise.Next() & 0xbf) | 4);
    scales_ = Array(DType::kF32, ops::ScaleShape(stack));
    noise.Fill(scales_, 0.01f);
    x_ = Array(types.activation, {kRows, k});
    noise.Fill(x_);
    weight_ = {memory_->Upload(w_), types.weight, ops::LayoutId::kRowMajor, stack.n, k};
    if (types.weight_scales != WeightScales::kNone) weight_.scales = memory_->Upload(scales_);
  }

  // Expert e has the rows [first[e], first[e] + count[e]) of x.
  struct Routing {
    std::vector<int32_t> first, count;
    int64_t Places() const { return std::accumulate(count.begin(), count.end(), int64_t{0}); }
    Array Starts() const {
      std::vector<int32_t> starts = {0};
      for (const int32_t c : count) starts.push_back(starts.back() + c);
      return Array::Ints(starts);
    }
    Array Tokens() const {
      std::vector<int32_t> tokens;
      for (size_t e = 0; e < count.size(); ++e)
        for (int32_t i = 0; i < count[e]; ++i) tokens.push_back(first[e] + i);
      return Array::Ints(tokens);
    }
  };
  static Routing All() { return {{0, 0, 0, 0}, std::vector<int32_t>(kExperts, kRows)}; }

  GroupedLinear::Args ArgsOf(const Routing& routing, const Array& out) {
    return {.x = memory_->Upload(x_),
            .tokens = memory_->Upload(routing.Tokens()),
            .starts = memory_->Upload(routing.Starts()),
            .weight = &weight_,
            .out = memory_->Upload(out)};
  }
  Array OutOf(const Routing& routing) const {
    return Array(ops::OutDType(desc_.each), {routing.Places(), desc_.each.n});
  }
  // By the op, or by a kernel in F8.
  Array Run(const Routing& routing, const F8Kernel* kernel = nullptr) {
    const Array out = OutOf(routing);
    const GroupedLinear::Args args = ArgsOf(routing, out);
    const auto bound = ops::Bind<GroupedLinear>(device_->ops(), desc_);
    CHECK(bound.ok(), bound.status().message());
    if (kernel == nullptr) {
      const Status status = (*bound)(*stream_, args);
      EXPECT_TRUE(status.ok()) << status.message();
      return memory_->Download(args.out, out);
    }
    const Grouping grouping = {kExperts, args.starts.ptr<int32_t>(), args.tokens.ptr<int32_t>()};
    const ops::Linear::Args each = {.x = args.x, .weight = args.weight, .out = args.out};
    const F8Plan plan = PlanF8With(*kernel, {.m = routing.Places(),
                                             .n = desc_.each.n,
                                             .k = desc_.each.k,
                                             .compute_units = device_->facts().compute_units,
                                             .experts = kExperts});
    const auto codes = QuantizeF8(*stream_, desc_.each, each, &grouping);
    CHECK(codes.ok(), codes.status().message());
    const Status status = MultiplyF8(*stream_, desc_.each, each, *codes, plan, &grouping);
    EXPECT_TRUE(status.ok()) << status.message();
    return memory_->Download(args.out, out);
  }
  // Each row of `some` has the bits that it has among `all`, where every expert has every row.
  void ExpectSameRows(const Array& some, const Routing& routing, const Array& all) {
    const size_t row = RowBytes(ops::OutDType(desc_.each), static_cast<size_t>(desc_.each.n));
    size_t place = 0;
    for (size_t e = 0; e < kExperts; ++e) {
      for (int32_t i = 0; i < routing.count[e]; ++i, ++place) {
        const size_t of_all = e * kRows + static_cast<size_t>(routing.first[e] + i);
        ASSERT_EQ(
            std::memcmp(some.bytes().data() + place * row, all.bytes().data() + of_all * row, row),
            0)
            << "expert " << e << ", row " << i << " of " << routing.count[e];
      }
    }
  }
  bool InF8() const { return GetParam().x_scales != ActivationScales::kNone; }

  GroupedLinear::Desc desc_;
  ops::PackedWeight weight_;
  Array w_, scales_, x_;
};
INSTANTIATE_TEST_SUITE_P(Cuda, GroupedLinearKernels, ::testing::ValuesIn(kTypes),
                         [](const auto& one) {
                           return StrCat(Name(one.param.weight), "_", Name(one.param.activation),
                                         "_", one.index);
                         });

// The promise of level 1: a row depends neither on how many rows its expert has, nor on which they
// are, nor on what the other experts have.
TEST_P(GroupedLinearKernels, ARowHasTheSameBitsInEveryFormAndCompany) {
  Make(int64_t{device_->facts().compute_units} * 32 / 128 * 128, 512);
  const Array all = Run(All());
  for (const Routing& routing :
       {Routing{{5, 0, 0, 0}, {1, 0, 0, 0}}, Routing{{0, 7, 0, 99}, {0, 3, 0, 1}},
        Routing{{80, 1, 2, 3}, {8, 9, 0, 16}}, Routing{{0, 60, 3, 36}, {33, 1, 40, 64}},
        Routing{{0, 0, 0, 0}, {0, 0, 100, 0}}}) {
    ExpectSameRows(Run(routing), routing, all);
  }
  for (const F8Kernel& kernel : F8Kernels()) {
    if (InF8()) ExpectSameRows(Run(All(), &kernel), All(), all);
  }
  const Array row(ops::OutDType(desc_.each), {1, desc_.each.n});
  std::memcpy(row.tensor().data, all.bytes().data(), row.bytes().size() - 1);
  for (size_t i = 0; i < row.Count(); ++i) ASSERT_TRUE(std::isfinite(row.At(i))) << i;
}

// Sums of several units of which the last is ragged, experts whose places begin anywhere.
TEST_P(GroupedLinearKernels, EveryKernelInF8AgreesWithTheReference) {
  if (!InF8()) return;
  Make(384, 1104);
  const Routing routing = {{3, 0, 20, 0}, {37, 0, 5, 70}};
  const Array out = OutOf(routing), tokens = routing.Tokens(), starts = routing.Starts();
  ops::PackedWeight host = weight_;
  host.data = w_.tensor();
  host.data.dtype = DType::kF8E4M3;
  host.scales = scales_.tensor();
  const GroupedLinear::Args args = {.x = x_.tensor(),
                                    .tokens = tokens.tensor(),
                                    .starts = starts.tensor(),
                                    .weight = &host,
                                    .out = out.tensor()};
  const Status status = ops::RefGroupedLinear(*stream_, desc_, args);
  ASSERT_TRUE(status.ok()) << status.message();
  for (const F8Kernel& kernel : F8Kernels()) {
    const auto near = ops::Compare(Run(routing, &kernel), out, 0x1p-5);
    EXPECT_TRUE(near.ok) << kernel.grouped_rows_function << ": " << near.what;
  }
}

TEST_P(GroupedLinearKernels, AGraphReplaysItWithOtherRoutings) {
  Make(256, 512);
  const Array all = Run(All());
  const Routing first = {{0, 0, 0, 0}, {10, 10, 10, 10}};
  const Array out = OutOf(first);
  const GroupedLinear::Args args = ArgsOf(first, out);
  const auto bound = ops::Bind<GroupedLinear>(device_->ops(), desc_);
  ASSERT_TRUE(bound.ok());
  const auto body = [&](device::Stream& stream) { return (*bound)(stream, args); };
  const auto graph = device_->Capture(*stream_, nullptr, body);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  for (const Routing& routing :
       {first, Routing{{0, 60, 0, 0}, {0, 40, 0, 0}}, Routing{{9, 0, 70, 50}, {1, 17, 20, 2}}}) {
    memory_->Write(args.tokens, routing.Tokens());
    memory_->Write(args.starts, routing.Starts());
    ASSERT_TRUE((*graph)->Replay(*stream_, {}).ok());
    ExpectSameRows(memory_->Download(args.out, out), routing, all);
  }
}

class GroupedConformance : public CudaTest {};

TEST_F(GroupedConformance, ManyCasesAgreeWithTheReference) {
  EXPECT_EQ(Verify(*device_, &RegisterGroupedLinear, 200), "");
}

}  // namespace
}  // namespace sluice::cuda
