// Products in 16 bits by warpgroups on a GPU, and by cuBLASLt where it joins them; without a GPU
// these tests say so and pass.
#include "backend/cuda/linear/wgmma_impls.h"

#include <cstring>

#include "backend/cuda/cuda_test.h"
#include "backend/cuda/linear/impls.h"
#include "backend/cuda/linear/repeated_noise.h"
#include "ops/linear.h"

namespace sluice::cuda {
namespace {

using ops::Array;
using ops::Linear;

constexpr int64_t kRows = 2048;

class WgmmaLinearTest : public CudaTest {
 protected:
  // All that a product of up to kRows rows of one kind reads.
  struct Inputs {
    ops::PackedWeight weight;
    ops::Tensor x, bias, residual;
  };
  Inputs Make(const Linear::Desc& desc) {
    Inputs in;
    const DType type = desc.weight;
    in.weight = {memory_->Upload(RepeatedNoise(type, {desc.n, desc.k}, 1)), type,
                 ops::LayoutId::kRowMajor, desc.n, desc.k};
    in.x = memory_->Upload(RepeatedNoise(type, {kRows, desc.k}, 2));
    in.bias = memory_->Upload(RepeatedNoise(type, {desc.n}, 3, 30.0f));
    in.residual = memory_->Upload(RepeatedNoise(ops::OutDType(desc), {kRows, desc.n}, 4, 30.0f));
    return in;
  }
  static ops::Tensor Rows(ops::Tensor t, int64_t first, int64_t count) {
    t.data += first * t.strides[0] * Info(t.dtype).bytes;
    t.dims[0] = count;
    return t;
  }
  static Linear::Args ArgsOf(const Linear::Desc& desc, const Inputs& in, int64_t first,
                             int64_t count) {
    Linear::Args args{.x = Rows(in.x, first, count), .weight = &in.weight};
    if (desc.bias) args.bias = in.bias;
    if (desc.residual) args.residual = Rows(in.residual, first, count);
    return args;
  }
  static const char* NameOf(DType type) {
    return type == DType::kF16 ? "sm90_f16_linear_wgmma" : "sm90_bf16_linear_wgmma";
  }
  ops::Bound<Linear> Forced(const char* name, const Linear::Desc& desc) {
    table_ = std::make_unique<ops::OpTable>(&memory_->device().facts());
    RegisterLinear(*table_);
    table_->Force("linear", name);
    auto bound = ops::Bind<Linear>(*table_, desc);
    CHECK(bound.ok(), bound.status().message());
    return *bound;
  }
  Array Run(const ops::Bound<Linear>& linear, Linear::Args args) {
    const Array like(ops::OutDType(linear.desc()), {args.x.dims[0], linear.desc().n});
    DeviceMemory& memory = *memory_;
    args.out = memory.Upload(like);
    const Status status = linear(memory.stream(), args);
    CHECK(status.ok(), status.message());
    return memory.Download(args.out, like);
  }

  std::unique_ptr<ops::OpTable> table_;
};

// Where the library is there, it must not be left out: many rows would take longer. Kinds of the
// layers of models of 8B.
TEST_F(WgmmaLinearTest, CublasLtJoins) {
  if (!LoadCublasLt().ok()) GTEST_SKIP() << DescribeCublasLt();
  constexpr ProductKind kKinds[] = {{DType::kBF16, 6144, 4096},
                                    {DType::kBF16, 4096, 4096, false, true},
                                    {DType::kBF16, 28672, 4096},
                                    {DType::kBF16, 4096, 14336, false, true},
                                    {DType::kBF16, 6144, 4096, true},
                                    {DType::kF16, 6144, 4096},
                                    {DType::kF16, 4096, 4096, false, true, true},
                                    {DType::kF16, 4096, 14336, false, true, true}};
  for (const ProductKind& kind : kKinds) {
    const Linear::Desc desc = {.weight = kind.type,
                               .activation = kind.type,
                               .n = kind.n,
                               .k = kind.k,
                               .bias = kind.bias,
                               .residual = kind.residual,
                               .f32_out = kind.f32_out};
    const Inputs in = Make(desc);
    Run(Forced(NameOf(kind.type), desc), ArgsOf(desc, in, 0, 1));
    for (const int64_t m : {kFewTokens + 1, kRows}) {
      const ProductCall call = {.m = m, .residual = in.residual.data, .out = in.x.data};
      const auto pinned = CublasLtOf(memory_->stream())
                              .Pinned(memory_->stream(), kind, call, [](const ProductCall&) {
                                return Status(StatusCode::kInternal, "the kind is known");
                              });
      ASSERT_TRUE(pinned.ok()) << pinned.status().message();
      ASSERT_NE(*pinned, nullptr) << kind.ToString();
      EXPECT_NE(Joining(**pinned, kind, call), nullptr) << kind.ToString() << " " << m;
    }
    memory_->FreeAll();
  }
}

// The promise of level 1: a row's bits are the same alone and in any batch, at any place of it.
TEST_F(WgmmaLinearTest, ARowsBitsDoNotDependOnTheRowsAroundIt) {
  struct Kind {
    int64_t n, k;
    bool bias, residual, f32_out;
    DType type = DType::kBF16;
  };
  constexpr Kind kKinds[] = {{6144, 4096, false, false, false},
                             {6144, 4096, true, false, false},
                             {4096, 4096, false, true, false},
                             {4096, 14336, false, true, false},
                             {28672, 4096, false, false, false},
                             {4096, 4096, false, false, true},
                             {1536, 576, true, true, false},
                             {960, 576, false, false, false},
                             {576, 1536, true, true, true},
                             {200, 72, false, false, true},
                             {6144, 4096, true, false, false, DType::kF16},
                             {4096, 4096, false, true, true, DType::kF16},
                             {4096, 14336, false, true, true, DType::kF16},
                             {28672, 4096, false, false, false, DType::kF16},
                             {200, 72, false, false, true, DType::kF16}};
  int64_t rows = 0;
  for (const Kind& kind : kKinds) {
    const Linear::Desc desc = {.weight = kind.type,
                               .activation = kind.type,
                               .n = kind.n,
                               .k = kind.k,
                               .bias = kind.bias,
                               .residual = kind.residual,
                               .f32_out = kind.f32_out};
    const ops::Bound<Linear> linear = Forced(NameOf(kind.type), desc);
    const Inputs in = Make(desc);
    const Array all = Run(linear, ArgsOf(desc, in, 0, kRows));
    const size_t row_bytes = static_cast<size_t>(kind.n * Info(ops::OutDType(desc)).bytes);
    std::vector<int64_t> counts = {65, 97, 128, 129, 161, 193, 255, 256, 257, 512, 1000, 2047};
    for (int64_t m = 1; m <= 64; ++m) counts.push_back(m);
    for (const int64_t m : counts) {
      const int64_t first = m * 37 % (kRows - m + 1);
      const Array part = Run(linear, ArgsOf(desc, in, first, m));
      rows += m;
      ASSERT_EQ(std::memcmp(part.bytes().data(), all.bytes().data() + first * row_bytes,
                            static_cast<size_t>(m) * row_bytes),
                0)
          << desc.ToString() << ", " << m << " rows from " << first;
    }
    memory_->FreeAll();
  }
  std::printf("%lld rows compared\n", static_cast<long long>(rows));
}

// Also kernels that the choice would leave to the vendor's, with all that an output can have added.
TEST_F(WgmmaLinearTest, EveryKernelGivesTheSameBits) {
  for (const bool f32_out : {false, true}) {
    const Linear::Desc desc = {.weight = DType::kBF16,
                               .activation = DType::kBF16,
                               .n = 1544,
                               .k = 1096,
                               .bias = true,
                               .residual = true,
                               .f32_out = f32_out};
    const Inputs in = Make(desc);
    const ProductKind kind = {desc.weight, desc.n, desc.k, true, true, f32_out};
    const Array like(ops::OutDType(desc), {300, desc.n});
    std::vector<Array> outs;
    for (const WgmmaKernel& kernel : WgmmaKernels()) {
      ops::Tensor out = memory_->Upload(like);
      const ProductCall call = {.m = 300,
                                .x = in.x.data,
                                .weight = in.weight.data.data,
                                .bias = in.bias.data,
                                .residual = in.residual.data,
                                .out = out.data,
                                .x_stride = desc.k,
                                .residual_stride = desc.n,
                                .out_stride = desc.n};
      const WgmmaShape shape = {300, desc.n, desc.k, memory_->device().facts().compute_units};
      ASSERT_TRUE(MultiplyWgmma(memory_->stream(), kind, call, PlanWgmmaWith(kernel, shape)).ok());
      outs.push_back(memory_->Download(out, like));
      EXPECT_EQ(outs.back(), outs.front()) << kernel.bf16_function;
    }
    memory_->FreeAll();
  }
}

// Whoever multiplies: what the vendor does in the residual's place has other bits.
TEST_F(WgmmaLinearTest, InTheResidualsPlaceAnOutputHasTheSameBits) {
  for (const bool f32_out : {false, true}) {
    const Linear::Desc desc = {.weight = DType::kBF16,
                               .activation = DType::kBF16,
                               .n = 576,
                               .k = 576,
                               .residual = true,
                               .f32_out = f32_out};
    const ops::Bound<Linear> linear = Forced("sm90_bf16_linear_wgmma", desc);
    const Inputs in = Make(desc);
    const Array apart = Run(linear, ArgsOf(desc, in, 7, 300));
    for (const int64_t m : {1, 16, 100, 300}) {
      Linear::Args args = ArgsOf(desc, in, 7, m);
      const Array like(ops::OutDType(desc), {m, desc.n});
      args.residual = args.out = memory_->Upload(memory_->Download(args.residual, like));
      ASSERT_TRUE(linear(memory_->stream(), args).ok());
      const Array got = memory_->Download(args.out, like);
      const auto bytes = static_cast<size_t>(m * desc.n * Info(ops::OutDType(desc)).bytes);
      EXPECT_EQ(std::memcmp(got.bytes().data(), apart.bytes().data(), bytes), 0)
          << desc.ToString() << " " << m;
    }
    memory_->FreeAll();
  }
}

// Both sum the same products in F32, in other orders.
TEST_F(WgmmaLinearTest, ItComputesWhatOurKernelComputes) {
  for (const DType type : {DType::kBF16, DType::kF16}) {
    const char* kernel = type == DType::kF16 ? "sm90_f16_linear" : "sm90_bf16_linear";
    for (const bool f32_out : {false, true}) {
      const Linear::Desc desc = {.weight = type,
                                 .activation = type,
                                 .n = 4096,
                                 .k = 4096,
                                 .bias = !f32_out,
                                 .residual = true,
                                 .f32_out = f32_out};
      const Inputs in = Make(desc);
      const Array ours = Run(Forced(kernel, desc), ArgsOf(desc, in, 3, 100));
      const Array theirs = Run(Forced(NameOf(type), desc), ArgsOf(desc, in, 3, 100));
      const auto near = ops::Compare(theirs, ours, f32_out ? 1e-3 : 0x1p-7);
      EXPECT_TRUE(near.ok) << Name(type) << ": " << near.what;
      memory_->FreeAll();
    }
  }
}

// Also the first product of its kind can be captured, and every number of rows is one kernel.
TEST_F(WgmmaLinearTest, AGraphReplaysWhatACallGives) {
  const Linear::Desc desc = {
      .weight = DType::kBF16, .activation = DType::kBF16, .n = 512, .k = 1024, .residual = true};
  const ops::Bound<Linear> linear = Forced("sm90_bf16_linear_wgmma", desc);
  const Inputs in = Make(desc);
  for (const int64_t m : {33, 300}) {
    Linear::Args args = ArgsOf(desc, in, 5, m);
    const Array like(DType::kBF16, {m, desc.n});
    args.out = memory_->Upload(like);
    const auto graph = memory_->device().Capture(
        memory_->stream(), nullptr, [&](device::Stream& stream) { return linear(stream, args); });
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    const uint64_t before = memory_->stream().counts().kernels;
    ASSERT_TRUE((*graph)->Replay(memory_->stream(), {}).ok());
    EXPECT_EQ(memory_->stream().counts().kernels - before, 1u);
    EXPECT_EQ(memory_->Download(args.out, like), Run(linear, ArgsOf(desc, in, 5, m))) << m;
  }
}

TEST_F(WgmmaLinearTest, RowsThatItCannotReadAreCopiedAndOnesItCannotWriteRefused) {
  const Linear::Desc desc = {.weight = DType::kBF16, .activation = DType::kBF16, .n = 64, .k = 128};
  const ops::Bound<Linear> linear = Forced("sm90_bf16_linear_wgmma", desc);
  const Inputs in = Make(desc);
  Linear::Args args = ArgsOf(desc, in, 0, 7);
  const Array expected = Run(linear, args);
  Array wide(DType::kBF16, {7, desc.k + 3});
  const Array x = RepeatedNoise(DType::kBF16, {kRows, desc.k}, 2);
  for (int64_t i = 0; i < 7 * desc.k; ++i) {
    wide.Set(static_cast<size_t>(i / desc.k * (desc.k + 3) + i % desc.k),
             x.At(static_cast<size_t>(i)));
  }
  args.x = memory_->Upload(wide);
  args.x.dims[1] = desc.k;
  EXPECT_EQ(Run(linear, args), expected);
  args.out = memory_->Upload(Array(DType::kBF16, {7, desc.n + 1}));
  args.out.dims[1] = desc.n;
  const Status status = linear(memory_->stream(), args);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("16 bytes"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace sluice::cuda
