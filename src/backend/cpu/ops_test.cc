// Which kernels the table gives, on every instruction set: choosing needs no machine that has it.
#include "backend/cpu/ops.h"

#include <gtest/gtest.h>

#include "backend/cpu/isa.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/rope_kv.h"
#include "ops/sampling.h"

namespace sluice::cpu {
namespace {

class CpuOps : public ::testing::TestWithParam<Isa> {
 protected:
  CpuOps() {
    facts_.architecture = Name(GetParam());
    RegisterCpuOps(table_);
  }
  // What the chosen kernel rounds the factors of its products to.
  template <class Op>
  ops::Arithmetic Of(const typename Op::Desc& desc) {
    const auto bound = ops::Bind<Op>(table_, desc);
    EXPECT_TRUE(bound.ok()) << bound.status().message();
    return bound.ok() ? bound->arithmetic() : ops::Arithmetic::kInt8;
  }

  device::DeviceFacts facts_;
  ops::OpTable table_{&facts_};
};
INSTANTIATE_TEST_SUITE_P(Sets, CpuOps,
                         ::testing::Values(Isa::kRef, Isa::kAvx2, Isa::kAvx512, Isa::kAmx),
                         [](const auto& set) { return std::string(Name(set.param)); });

ops::KvDesc Kv(DType dtype) {
  return {
      .dtype = dtype, .kv_heads = 2, .k_head_dim = 64, .v_head_dim = 64, .kernel_block_tokens = 16};
}
ops::Attention::Desc AttentionOver(DType kv) {
  return {.q_heads = 4, .kv_heads = 2, .head_dim = 64, .kv = Kv(kv)};
}

TEST_P(CpuOps, AModelInF32WithItsCacheInF32IsNowhereRoundedToLess) {
  const auto exact = [](ops::Arithmetic arithmetic) {
    return arithmetic == ops::Arithmetic::kF32 || arithmetic == ops::Arithmetic::kAsReference;
  };
  EXPECT_TRUE(exact(Of<ops::Embedding>({.vocab = 96, .hidden = 64})));
  EXPECT_TRUE(exact(Of<ops::Norm>({.hidden = 64})));
  EXPECT_TRUE(exact(Of<ops::QkNorm>({.q_heads = 4, .kv_heads = 2, .head_dim = 64})));
  for (const bool f32_out : {false, true}) {
    EXPECT_TRUE(exact(Of<ops::Linear>({.n = 128, .k = 64, .f32_out = f32_out})));
  }
  for (const auto form :
       {ops::RopeKvForm::kPrefillQkvOut, ops::RopeKvForm::kPrefillQOut, ops::RopeKvForm::kDecode}) {
    EXPECT_TRUE(exact(Of<ops::RopeKv>({.form = form,
                                       .q_heads = 4,
                                       .kv_heads = 2,
                                       .head_dim = 64,
                                       .rotary_dims = 64,
                                       .kv = Kv(DType::kF32)})));
  }
  EXPECT_TRUE(exact(Of<ops::Attention>(AttentionOver(DType::kF32))));
  EXPECT_TRUE(exact(Of<ops::GatedActivation>({.width = 64})));
  EXPECT_TRUE(exact(Of<ops::SoftCap>({.cap = 30.0f})));
  EXPECT_TRUE(exact(Of<ops::GatherRows>({.width = 64})));
  EXPECT_TRUE(exact(Of<ops::Sample>({.vocab = 96})));
}

// The tiles of AMX are bf16 numbers: they are for caches of 16 bits or fewer.
TEST_P(CpuOps, OnlyACacheOf16BitsOrFewerIsReadByTiles) {
  const bool tiles = GetParam() == Isa::kAmx;
  for (const DType kv : {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kI8}) {
    EXPECT_EQ(Of<ops::Attention>(AttentionOver(kv)) == ops::Arithmetic::kBf16, tiles) << Name(kv);
  }
}

}  // namespace
}  // namespace sluice::cpu
