// Rows that become codes in the kernel that makes them, on a GPU: the same bits as rows that are
// left in memory and become codes there, in codes, scales and products. Where there is no GPU these
// tests say so and pass.
#include <numeric>

#include "backend/cuda/activation/impls.h"
#include "backend/cuda/cuda_test.h"
#include "backend/cuda/norm/impls.h"
#include "ops/conformance_case.h"

namespace sluice::cuda {
namespace {

using ops::Array;
using ops::GatedActivation;
using ops::GroupedLinear;
using ops::GroupQuant;
using ops::Linear;
using ops::Norm;
using ops::RowForm;

constexpr DType kTypes[] = {DType::kBF16, DType::kF16, DType::kF32};

class CodedRowsTest : public CudaTest {
 protected:
  // On the device, with room for scales as a layer has it.
  struct Coded {
    ops::Tensor codes, scales;
  };
  Coded Room(int64_t rows, int64_t width) {
    const int64_t groups = (width + ops::kCodeGroup - 1) / ops::kCodeGroup;
    return {memory_->Upload(ops::Untouched(DType::kF8E4M3, {rows, width})),
            memory_->Upload(ops::Untouched(DType::kF32, {groups, rows}))};
  }
  Array Read(const ops::Tensor& t) {
    return memory_->Download(t, Array(t.dtype, {t.dims[0], t.dims[1]}));
  }
  void ExpectSame(const Coded& got, const Coded& expected, const std::string& what) {
    EXPECT_EQ(Read(got.codes), Read(expected.codes)) << what;
    EXPECT_EQ(Read(got.scales), Read(expected.scales)) << what;
  }
  template <class Op>
  void Run(const typename Op::Desc& desc, const typename Op::Args& args) {
    const auto bound = ops::Bind<Op>(device_->ops(), desc);
    ASSERT_TRUE(bound.ok()) << bound.status().message();
    const Status status = (*bound)(*stream_, args);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  Coded Quantize(const ops::Tensor& x) {
    const Coded coded = Room(x.dims[0], x.dims[1]);
    Run<GroupQuant>({.activation = x.dtype, .width = x.dims[1]},
                    {.x = x, .counts = {}, .codes = coded.codes, .scales = coded.scales});
    return coded;
  }
  ops::Tensor Random(DType type, std::vector<int64_t> dims, uint64_t seed, float scale = 1.0f) {
    ops::TestNoise noise(seed);
    return memory_->Upload(ops::Filled(noise, type, std::move(dims), scale));
  }
};

TEST_F(CodedRowsTest, ManyCasesOfGroupQuantAgreeWithTheReference) {
  EXPECT_EQ(Verify(*device_, &RegisterActivation, 200), "");
}
TEST_F(CodedRowsTest, ManyCasesOfNormsAgreeWithTheReference) {
  EXPECT_EQ(Verify(*device_, &RegisterNorm, 300), "");
}

// Rows that fit the registers of a thread block, and such as don't.
TEST_F(CodedRowsTest, ANormsAreThoseOfWhatItLeavesInMemory) {
  for (const DType type : kTypes) {
    for (const int64_t hidden : {136, 4096, 8192, 12296}) {
      for (const int64_t rows : {1, 7}) {
        Norm::Desc desc{.activation = type, .hidden = hidden, .add = hidden != 4096};
        desc.f32_residual = type == DType::kF16 && rows == 7;
        Norm::Args args{.x = Random(XDType(desc), {rows, hidden}, 1, 4.0f)};
        const ops::Tensor weight = Random(DType::kF32, {hidden}, 2);
        args.weight = weight;
        const auto residual = [&] {
          return desc.add ? Random(SumDType(desc), {rows, hidden}, 3) : ops::Tensor();
        };
        args.residual = residual();
        args.out = Random(type, {rows, hidden}, 4);
        Run<Norm>(desc, args);
        const Array plain = Read(args.out);
        const Coded expected = Quantize(args.out);
        for (const RowForm form : {RowForm::kCodes, RowForm::kBoth}) {
          desc.form = form;
          const Coded coded = Room(rows, hidden);
          args.residual = residual();
          args.out = form == RowForm::kBoth ? Random(type, {rows, hidden}, 5) : ops::Tensor();
          args.codes = coded.codes;
          args.code_scales = coded.scales;
          Run<Norm>(desc, args);
          ExpectSame(coded, expected, desc.ToString());
          if (form == RowForm::kBoth) {
            EXPECT_EQ(Read(args.out), plain) << desc.ToString();
          }
        }
        memory_->FreeAll();
      }
    }
  }
}

TEST_F(CodedRowsTest, AGatesAreThoseOfWhatItLeavesInMemory) {
  for (const DType type : kTypes) {
    for (const ops::Activation kind : ops::kActivations) {
      for (const int64_t width : {100, 768, 14336}) {
        for (const int64_t rows : {1, 33}) {
          const ops::Tensor gate_up = Random(type, {rows, 2 * width}, 1, 5.0f);
          const ops::Tensor made = Random(type, {rows, width}, 2);
          Run<GatedActivation>(
              {.kind = kind, .activation = type, .width = width, .out_scale = 0.7f},
              {gate_up, made});
          const Coded expected = Quantize(made), coded = Room(rows, width);
          const GroupQuant::Desc desc{
              .activation = type, .width = width, .gated = true, .kind = kind, .out_scale = 0.7f};
          Run<GroupQuant>(
              desc, {.x = gate_up, .counts = {}, .codes = coded.codes, .scales = coded.scales});
          ExpectSame(coded, expected, desc.ToString());
          memory_->FreeAll();
        }
      }
    }
  }
}

// The product makes the same of codes as of the rows, whatever tiles it takes and whatever lies
// behind the scales.
TEST_F(CodedRowsTest, AProductOfCodesIsThatOfTheRows) {
  for (const int64_t k : {16, 1104, 4096}) {
    const Linear::Desc desc{.weight = DType::kF8E4M3,
                            .weight_scales = ops::WeightScales::kBlock,
                            .x_scales = ops::ActivationScales::kBlock,
                            .activation = DType::kBF16,
                            .n = 1000,
                            .k = k,
                            .residual = true};
    ops::PackedWeight weight = {Random(DType::kF8E4M3, {desc.n, k}, 1, 100.0f), DType::kF8E4M3,
                                ops::LayoutId::kRowMajor, desc.n, k};
    const std::vector<int64_t> shape = ops::ScaleShape(desc);
    weight.scales = Random(DType::kF32, shape, 2, 0.01f);
    for (const int64_t m : {1, 2, 8, 9, 17, 33, 64, 65, 130, 257, 600}) {
      const ops::Tensor x = Random(DType::kBF16, {m, k}, 3, 4.0f);
      const ops::Tensor residual = Random(DType::kBF16, {m, desc.n}, 4);
      const ops::Tensor expected = Random(DType::kBF16, {m, desc.n}, 5);
      const ops::Tensor out = Random(DType::kBF16, {m, desc.n}, 6);
      Linear::Args args{.x = x, .weight = &weight, .residual = residual, .out = expected};
      Run<Linear>(desc, args);
      const Coded coded = Quantize(x);
      args.x = coded.codes;
      args.x_scales = coded.scales;
      args.out = out;
      Run<Linear>(desc, args);
      EXPECT_EQ(Read(out), Read(expected)) << desc.ToString() << ", " << m;
    }
    memory_->FreeAll();
  }
}

// Experts of which some have no rows, and places at the end that no expert has.
TEST_F(CodedRowsTest, AProductOfExpertsIsThatOfTheRows) {
  constexpr int64_t kN = 256, kK = 384;
  for (const int64_t places : {8, 40, 600}) {
    const auto at = [&](int64_t part) { return static_cast<int32_t>(places * part / 8); };
    const Array starts = Array::Ints({0, at(1), at(1), at(5), at(7)});
    const GroupedLinear::Desc desc{.each = {.weight = DType::kF8E4M3,
                                            .weight_scales = ops::WeightScales::kBlock,
                                            .x_scales = ops::ActivationScales::kBlock,
                                            .activation = DType::kBF16,
                                            .n = kN,
                                            .k = kK,
                                            .f32_out = true},
                                   .experts = 4};
    const Linear::Desc stack = desc.Stacked();
    ops::PackedWeight weight = {Random(DType::kF8E4M3, {stack.n, kK}, 1, 100.0f), DType::kF8E4M3,
                                ops::LayoutId::kRowMajor, stack.n, kK};
    weight.scales = Random(DType::kF32, ops::ScaleShape(stack), 2, 0.01f);
    const ops::Tensor gate_up = Random(DType::kBF16, {places, 2 * kK}, 3, 4.0f);
    const ops::Tensor made = Random(DType::kBF16, {places, kK}, 4);
    Run<GatedActivation>({.activation = DType::kBF16, .width = kK}, {gate_up, made});
    GroupedLinear::Args args{.x = made, .starts = memory_->Upload(starts), .weight = &weight};
    const Array untouched = ops::Untouched(DType::kF32, {places, kN});
    const ops::Tensor expected = memory_->Upload(untouched), out = memory_->Upload(untouched);
    args.out = expected;
    Run<GroupedLinear>(desc, args);
    const Coded coded = Room(places, kK);
    const Array before = Read(coded.codes);
    Run<GroupQuant>({.activation = DType::kBF16, .width = kK, .gated = true, .parts = 1},
                    {.x = gate_up,
                     .counts = args.starts.Rows(4, 1),
                     .codes = coded.codes,
                     .scales = coded.scales});
    args.x = coded.codes;
    args.x_scales = coded.scales;
    args.out = out;
    Run<GroupedLinear>(desc, args);
    EXPECT_EQ(Read(out), Read(expected)) << places;
    const Array codes = Read(coded.codes);
    for (int64_t i = at(7) * kK; i < places * kK; ++i)
      ASSERT_EQ(codes.bytes()[static_cast<size_t>(i)], before.bytes()[static_cast<size_t>(i)]) << i;
    memory_->FreeAll();
  }
}

}  // namespace
}  // namespace sluice::cuda
