// Products in F8 on a GPU; where there is none these tests say so and pass. Conformance has every
// pair of scales on small shapes; here are tiles, long sums, padding and graphs.
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cuda/cuda_test.h"
#include "backend/cuda/linear/cublaslt.h"
#include "backend/cuda/linear/f8_impls.h"
#include "backend/cuda/linear/f8_product.h"
#include "backend/cuda/linear/repeated_noise.h"

namespace sluice::cuda {
namespace {

using ops::ActivationScales;
using ops::Array;
using ops::Linear;
using ops::WeightScales;

constexpr int64_t kRows = 300;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class F8LinearTest : public CudaTest {
 protected:
  static Linear::Desc DescOf(WeightScales w, ActivationScales x, int64_t n, int64_t k) {
    return {.weight = DType::kF8E4M3,
            .weight_scales = w,
            .x_scales = x,
            .activation = DType::kBF16,
            .n = n,
            .k = k};
  }

  // What a product reads, on the host and on the device.
  struct Inputs {
    Array w, w_scales, x_scale, x, bias, residual;
    ops::PackedWeight host, device;
  };
  Inputs Make(const Linear::Desc& desc, int64_t m) {
    Inputs in;
    in.w = RepeatedNoise(DType::kF8E4M3, {desc.n, desc.k}, 1, 100.0f);
    in.w_scales = RepeatedNoise(DType::kF32, ops::ScaleShape(desc), 2, 0.01f);
    in.x_scale = Array::Floats(DType::kF32, {1}, {0.02f});
    in.x = RepeatedNoise(desc.activation, {m, desc.k}, 3, 4.0f);
    in.bias = RepeatedNoise(desc.activation, {desc.n}, 4, 30.0f);
    in.residual = RepeatedNoise(ops::OutDType(desc), {m, desc.n}, 5, 30.0f);
    in.host = {in.w.tensor(), DType::kF8E4M3, ops::LayoutId::kRowMajor, desc.n, desc.k};
    in.device = in.host;
    in.device.data = memory_->Upload(in.w);
    in.host.scales = in.w_scales.tensor();
    in.device.scales = memory_->Upload(in.w_scales);
    if (desc.x_scales == ActivationScales::kTensor) {
      in.host.x_scale = in.x_scale.tensor();
      in.device.x_scale = memory_->Upload(in.x_scale);
    }
    return in;
  }
  // Rows [first, first + m) of the inputs, by the kernel of `plan` or, without one, the op's.
  Array Run(const Linear::Desc& desc, const Inputs& in, int64_t first, int64_t m,
            const F8Kernel* kernel = nullptr) {
    Linear::Args args{.x = memory_->Upload(in.x).Rows(first, m), .weight = &in.device};
    if (desc.bias) args.bias = memory_->Upload(in.bias);
    if (desc.residual) args.residual = memory_->Upload(in.residual).Rows(first, m);
    const Array out(ops::OutDType(desc), {m, desc.n});
    args.out = memory_->Upload(out);
    Status status;
    if (kernel == nullptr) {
      const auto bound = ops::Bind<Linear>(device_->ops(), desc);
      CHECK(bound.ok(), bound.status().message());
      EXPECT_EQ(bound->name(), "sm90_f8_linear");
      status = (*bound)(*stream_, args);
    } else {
      const F8Plan plan = PlanF8With(*kernel, {m, desc.n, desc.k, device_->facts().compute_units});
      const auto x = QuantizeF8(*stream_, desc, args);
      CHECK(x.ok(), x.status().message());
      status = MultiplyF8(*stream_, desc, args, *x, plan);
    }
    EXPECT_TRUE(status.ok()) << status.message();
    return memory_->Download(args.out, out);
  }
  static bool SameRows(const Array& some, const Array& all, int64_t first, size_t row_bytes) {
    return std::memcmp(some.bytes().data(), all.bytes().data() + first * row_bytes,
                       some.bytes().size() - 1) == 0;  // an Array has a byte to spare
  }
  Array Reference(const Linear::Desc& desc, const Inputs& in, int64_t m) {
    Array out(ops::OutDType(desc), {m, desc.n});
    Linear::Args args{.x = in.x.tensor().Rows(0, m), .weight = &in.host};
    if (desc.bias) args.bias = in.bias.tensor();
    if (desc.residual) args.residual = in.residual.tensor().Rows(0, m);
    args.out = out.tensor();
    EXPECT_TRUE(ops::RefLinear(*stream_, desc, args).ok());
    return out;
  }
};

constexpr std::pair<WeightScales, ActivationScales> kScales[] = {
    {WeightScales::kBlock, ActivationScales::kBlock},
    {WeightScales::kTensor, ActivationScales::kTensor},
    {WeightScales::kRow, ActivationScales::kRow},
    {WeightScales::kRow, ActivationScales::kBlock},
    {WeightScales::kBlock, ActivationScales::kTensor}};

TEST_F(F8LinearTest, ManyCasesAgreeWithTheReference) {
  EXPECT_EQ(Verify(*device_, &RegisterF8Linear, 200), "");
}

// Every kernel against the reference, over sums of several units of which the last is ragged, tiles
// of rows that begin within a block of scales, and more tokens than a tile has.
TEST_F(F8LinearTest, EveryKernelAgreesWithTheReference) {
  for (const auto& [w, x] : kScales) {
    for (const int64_t n : {264, 37}) {
      Linear::Desc desc = DescOf(w, x, n, 1104);
      desc.bias = n == 37;
      desc.residual = true;
      desc.f32_out = n == 37 && w == WeightScales::kRow;
      const Inputs in = Make(desc, kRows);
      const Array expected = Reference(desc, in, kRows);
      for (const F8Kernel& kernel : F8Kernels()) {
        const Array got = Run(desc, in, 0, kRows, &kernel);
        const auto near = ops::Compare(got, expected, desc.f32_out ? 1e-2 : 0x1p-5);
        EXPECT_TRUE(near.ok) << desc.ToString() << " by " << kernel.blocks_function << ": "
                             << near.what;
      }
      memory_->FreeAll();
    }
  }
}

// The promise of level 1.
TEST_F(F8LinearTest, EveryKernelGivesARowTheSameBits) {
  for (const auto& [w, x] : kScales) {
    const Linear::Desc desc = DescOf(w, x, 6152, 2064);
    const Inputs in = Make(desc, kRows);
    const size_t row_bytes = static_cast<size_t>(desc.n) * 2;
    const Array all = Run(desc, in, 0, kRows);
    for (const F8Kernel& kernel : F8Kernels()) {
      EXPECT_TRUE(SameRows(Run(desc, in, 0, kRows, &kernel), all, 0, row_bytes))
          << desc.ToString() << " by " << kernel.blocks_function;
    }
    for (const int64_t m : {1, 2, 7, 8, 9, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255}) {
      const int64_t first = m * 37 % (kRows - m + 1);
      EXPECT_TRUE(SameRows(Run(desc, in, first, m), all, first, row_bytes))
          << desc.ToString() << ", " << m << " rows from " << first;
    }
    memory_->FreeAll();
  }
}

TEST(F8Linear, CublasLtIsAskedWhereItAddsAlike) {
  const auto taken = [](WeightScales w, ActivationScales x, int64_t n, int64_t k,
                        bool residual = false, DType type = DType::kBF16) {
    return CublasLtMayTake({.weight = DType::kF8E4M3,
                            .weight_scales = w,
                            .x_scales = x,
                            .activation = type,
                            .n = n,
                            .k = k,
                            .residual = residual});
  };
  using W = WeightScales;
  using X = ActivationScales;
  EXPECT_TRUE(taken(W::kBlock, X::kBlock, 6144, 4096));
  EXPECT_TRUE(taken(W::kBlock, X::kBlock, 4096, 14336, true));
  EXPECT_FALSE(taken(W::kBlock, X::kBlock, 6144, 4096 + 128));  // 33 scales in a row of W's
  EXPECT_FALSE(taken(W::kBlock, X::kBlock, 6144, 4096 + 64));
  EXPECT_FALSE(taken(W::kBlock, X::kBlock, 6148, 4096));
  EXPECT_FALSE(taken(W::kBlock, X::kBlock, 6144, 4096, false, DType::kF32));
  EXPECT_FALSE(taken(W::kRow, X::kBlock, 6144, 4096));
  EXPECT_FALSE(taken(W::kBlock, X::kTensor, 6144, 4096));
  for (const auto& [w, x] : {std::pair{W::kTensor, X::kTensor}, {W::kRow, X::kRow}}) {
    EXPECT_TRUE(taken(w, x, 6144, 4096 + 128));
    EXPECT_FALSE(taken(w, x, 4096, 4096, true));
  }
}

// Where the library is there, it must not be left out: many rows would take longer.
TEST_F(F8LinearTest, CublasLtJoins) {
  if (!LoadCublasLt().ok()) GTEST_SKIP() << DescribeCublasLt();
  const auto no_ours = [](const ProductCall&) {
    return Status(StatusCode::kInternal, "the kind is known");
  };
  for (const auto& [w, x] : {kScales[0], kScales[1], kScales[2]}) {
    for (const auto& [n, k] : {std::pair{6144, 4096}, {4096, 14336}}) {
      const bool residual = w == WeightScales::kBlock && n == 4096;
      Linear::Desc desc = DescOf(w, x, n, k);
      desc.residual = residual;
      const Inputs in = Make(desc, 1);
      Run(desc, in, 0, 1);
      const ProductKind kind = {desc.activation, n, k, false, residual, false, w};
      const ProductCall call = {.m = kF8FewRows + 1, .out = in.device.data.data};
      LtJoin join;
      const auto joining = join.For(*stream_, kind, call, no_ours, kF8FewRows);
      ASSERT_TRUE(joining.ok()) << joining.status().message();
      EXPECT_NE(*joining, nullptr) << desc.ToString();
      const auto few = join.For(*stream_, kind, {.m = kF8FewRows}, no_ours, kF8FewRows);
      ASSERT_TRUE(few.ok()) << few.status().message();
      EXPECT_EQ(*few, nullptr);
      memory_->FreeAll();
    }
  }
}

// Whoever multiplies: numbers of rows on both sides of where cuBLASLt joins, and such as it does
// not take.
TEST_F(F8LinearTest, ARowOfManyHasTheBitsThatItHasAlone) {
  constexpr int64_t kMany = 2048;
  for (const auto& [w, x] : {kScales[0], kScales[1], kScales[2]}) {
    for (const auto& [n, k] : {std::pair{6144, 4096}, {4096, 14336}, {1552, 1280}}) {
      Linear::Desc desc = DescOf(w, x, n, k);
      desc.residual = n == 4096;
      desc.bias = n == 6144 && w == WeightScales::kBlock;
      const Inputs in = Make(desc, kMany);
      const size_t row_bytes = static_cast<size_t>(desc.n) * 2;
      const Array all = Run(desc, in, 0, kMany);
      for (const int64_t m :
           {1, 16, 64, 129, 192, 193, 194, 196, 200, 256, 300, 320, 512, 1000, 2047}) {
        const int64_t first = m * 37 % (kMany - m + 1);
        EXPECT_TRUE(SameRows(Run(desc, in, first, m), all, first, row_bytes))
            << desc.ToString() << ", " << m << " rows from " << first;
      }
      memory_->FreeAll();
    }
  }
}

// The element of k at which an activation is 1 and all others 0, so that out is a column of W.
TEST_F(F8LinearTest, ManyUnitsOfKMeetTheirOwnScales) {
  const Linear::Desc desc = DescOf(WeightScales::kBlock, ActivationScales::kBlock, 400, 5136);
  Inputs in = Make(desc, 130);
  in.x.Fill(0.0f);
  for (int64_t row = 0; row < 130; ++row)
    in.x.Set(static_cast<size_t>(row * desc.k + row * 39), 1.0f);
  const Array expected = Reference(desc, in, 130);
  for (const int64_t m : {1, 16, 130}) {
    const Array got = Run(desc, in, 0, m);
    for (size_t i = 0; i < got.Count(); ++i) ASSERT_EQ(got.At(i), expected.At(i)) << i;
  }
}

// What lies beside rows, in memory that calls before have left, and what codes cannot hold.
TEST_F(F8LinearTest, PaddingIsNotReadAndNotWritten) {
  for (const DType type : {DType::kBF16, DType::kF16, DType::kF32}) {
    Linear::Desc desc = DescOf(WeightScales::kBlock, ActivationScales::kBlock, 100, 400);
    desc.activation = type;
    Inputs in = Make(desc, 5);
    const Array expected = Run(desc, in, 0, 5);
    Inputs poison = Make(desc, kRows);
    poison.x.Fill(kNan);
    const Array nan = Run(desc, poison, 0, kRows);
    for (size_t i = 0; i < nan.Count(); ++i) ASSERT_TRUE(std::isnan(nan.At(i)));
    // Rows of odd strides, NaN behind them.
    constexpr int64_t kMore = 3;
    Array x(type, {5, desc.k + kMore});
    x.Fill(kNan);
    for (int64_t i = 0; i < 5 * desc.k; ++i) {
      x.Set(static_cast<size_t>(i / desc.k * (desc.k + kMore) + i % desc.k),
            in.x.At(static_cast<size_t>(i)));
    }
    Array out(type, {5, desc.n + kMore});
    out.Fill(7.0f);
    Linear::Args args{.x = memory_->Upload(x), .weight = &in.device, .out = memory_->Upload(out)};
    args.x.dims[1] = desc.k;
    const ops::Tensor whole = args.out;
    args.out.dims[1] = desc.n;
    const auto bound = ops::Bind<Linear>(device_->ops(), desc);
    ASSERT_TRUE(bound.ok() && (*bound)(*stream_, args).ok());
    const Array got = memory_->Download(whole, out);
    for (int64_t i = 0; i < 5 * (desc.n + kMore); ++i) {
      const int64_t row = i / (desc.n + kMore), column = i % (desc.n + kMore);
      const float want =
          column < desc.n ? expected.At(static_cast<size_t>(row * desc.n + column)) : 7.0f;
      ASSERT_EQ(got.At(static_cast<size_t>(i)), want) << row << ", " << column;
    }
    memory_->FreeAll();
  }
}

// Whoever writes them, threads or the copy engine: rows of out that are longer than n, whose rest
// stays, and that have the residual before.
TEST_F(F8LinearTest, EveryKernelWritesInTheResidualsPlaceAndNothingBesideIt) {
  constexpr int64_t kMore = 8;
  for (const DType type : {DType::kBF16, DType::kF16, DType::kF32}) {
    Linear::Desc desc = DescOf(WeightScales::kBlock, ActivationScales::kBlock, 264, 1104);
    desc.activation = type;
    desc.bias = desc.residual = true;
    const Inputs in = Make(desc, kRows);
    const Array apart = Run(desc, in, 0, kRows, &F8Kernels()[0]);
    Array rows(type, {kRows, desc.n + kMore});
    rows.Fill(7.0f);
    for (int64_t i = 0; i < kRows * desc.n; ++i) {
      rows.Set(static_cast<size_t>(i / desc.n * (desc.n + kMore) + i % desc.n),
               in.residual.At(static_cast<size_t>(i)));
    }
    for (const F8Kernel& kernel : F8Kernels()) {
      Linear::Args args{.x = memory_->Upload(in.x), .weight = &in.device};
      args.bias = memory_->Upload(in.bias);
      const ops::Tensor whole = memory_->Upload(rows);
      args.out = whole;
      args.out.dims[1] = desc.n;
      args.residual = args.out;
      const F8Plan plan =
          PlanF8With(kernel, {kRows, desc.n, desc.k, device_->facts().compute_units});
      const auto x = QuantizeF8(*stream_, desc, args);
      ASSERT_TRUE(x.ok() && MultiplyF8(*stream_, desc, args, *x, plan).ok());
      const Array got = memory_->Download(whole, rows);
      for (int64_t i = 0; i < kRows * (desc.n + kMore); ++i) {
        const int64_t row = i / (desc.n + kMore), column = i % (desc.n + kMore);
        const float want =
            column < desc.n ? apart.At(static_cast<size_t>(row * desc.n + column)) : 7.0f;
        ASSERT_EQ(got.At(static_cast<size_t>(i)), want)
            << kernel.blocks_function << " " << row << ", " << column;
      }
    }
    memory_->FreeAll();
  }
}

TEST_F(F8LinearTest, AGraphReplaysIt) {
  const Linear::Desc desc = DescOf(WeightScales::kBlock, ActivationScales::kBlock, 512, 1024);
  const Inputs in = Make(desc, 33);
  const Array expected = Run(desc, in, 0, 33);
  const Array like(DType::kBF16, {33, desc.n});
  Linear::Args args{.x = memory_->Upload(in.x), .weight = &in.device, .out = memory_->Upload(like)};
  const auto bound = ops::Bind<Linear>(device_->ops(), desc);
  ASSERT_TRUE(bound.ok());
  const auto body = [&](device::Stream& stream) { return (*bound)(stream, args); };
  const auto graph = device_->Capture(*stream_, nullptr, body);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE((*graph)->Replay(*stream_, {}).ok());
  EXPECT_EQ(memory_->Download(args.out, like), expected);
}

}  // namespace
}  // namespace sluice::cuda
