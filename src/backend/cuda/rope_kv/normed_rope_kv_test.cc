// Norms of heads with RoPE and the KV write on a GPU: the bits of the ops for the parts. Where
// there is no GPU these tests say so and pass.
#include <cmath>

#include "backend/cuda/cuda_test.h"
#include "backend/cuda/rope_kv/impls.h"
#include "ops/conformance_case.h"

namespace sluice::cuda {
namespace {

using ops::Array;
using ops::NormedRopeKv;
using ops::QkNorm;
using ops::RopeKv;
using ops::Tensor;

class NormedRopeKvTest : public CudaTest {
 protected:
  static constexpr int64_t kPositions = 50, kBlocks = 9;
  static constexpr int kBlock = 16;

  static NormedRopeKv::Desc DescOf(DType activation, DType kv, int head_dim) {
    NormedRopeKv::Desc desc;
    desc.rope = {.activation = activation,
                 .q_heads = 5,
                 .kv_heads = 3,
                 .head_dim = head_dim,
                 .rotary_dims = head_dim};
    desc.rope.kv = {kv, 3, head_dim, head_dim, kBlock};
    desc.eps = 1e-6f;
    return desc;
  }
  Tensor Numbers(const Array& array) { return memory_->Upload(array); }
  // What a call writes, of its own.
  void Room(const NormedRopeKv::Desc& desc, int64_t tokens, NormedRopeKv::Args* args) {
    const int head_dim = desc.rope.head_dim;
    const auto untouched = [&](DType type, std::vector<int64_t> dims) {
      return memory_->Upload(ops::Untouched(type, std::move(dims)));
    };
    args->q_out = untouched(desc.rope.activation, {tokens, desc.rope.q_heads * int64_t{head_dim}});
    args->kv.k = untouched(desc.rope.kv.dtype, {kBlocks, 3, kBlock, head_dim});
    args->kv.v = untouched(desc.rope.kv.dtype, {kBlocks, 3, kBlock, head_dim});
    if (!ops::KvHasScales(desc.rope.kv.dtype)) return;
    args->kv.k_scale = untouched(DType::kF32, {kBlocks, 3, kBlock});
    args->kv.v_scale = untouched(DType::kF32, {kBlocks, 3, kBlock});
  }
  NormedRopeKv::Args Make(const NormedRopeKv::Desc& desc, int64_t tokens) {
    ops::TestNoise noise(static_cast<uint64_t>(desc.rope.head_dim));
    const int head_dim = desc.rope.head_dim;
    NormedRopeKv::Args args;
    args.qkv = Numbers(ops::Filled(noise, desc.rope.activation, {tokens, 11 * head_dim + 8}, 3.0f));
    args.qkv.dims[1] = 11 * head_dim;
    Array table(DType::kF32, {kPositions, head_dim});
    std::vector<double> frequencies;
    for (int i = 0; i < head_dim / 2; ++i)
      frequencies.push_back(std::pow(1e4, -2.0 * i / head_dim));
    ops::FillRopeTable(frequencies, 1.0, kPositions, table.tensor().ptr<float>());
    args.table = Numbers(table);
    std::vector<int32_t> positions, slots;
    for (int32_t t = 0; t < tokens; ++t) {
      positions.push_back(7 * t % (kPositions + 3));  // some lie outside
      slots.push_back(t % 5 == 4 ? -1 : static_cast<int32_t>(tokens) - 1 - t);
    }
    args.positions = Numbers(Array::Ints(positions));
    args.slots = Numbers(Array::Ints(slots));
    args.q_weight = Numbers(ops::Filled(noise, DType::kF32, {head_dim}));
    args.k_weight = Numbers(ops::Filled(noise, DType::kF32, {head_dim}));
    Room(desc, tokens, &args);
    return args;
  }
  template <class Op>
  void Run(const typename Op::Desc& desc, const typename Op::Args& args) {
    const auto bound = ops::Bind<Op>(device_->ops(), desc);
    ASSERT_TRUE(bound.ok()) << bound.status().message();
    const Status status = (*bound)(*stream_, args);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  // Everything that a call writes, as bytes.
  std::vector<Array> Written(const NormedRopeKv::Args& args) {
    std::vector<Array> written;
    for (const Tensor* t :
         {&args.q_out, &args.kv.k, &args.kv.v, &args.kv.k_scale, &args.kv.v_scale}) {
      if (t->empty()) continue;
      std::vector<int64_t> dims(t->dims.begin(), t->dims.begin() + t->rank);
      written.push_back(memory_->Download(*t, Array(t->dtype, dims)));
    }
    return written;
  }
};

TEST_F(NormedRopeKvTest, HasTheBitsOfItsParts) {
  for (const DType activation : {DType::kBF16, DType::kF16, DType::kF32}) {
    for (const DType kv : {DType::kBF16, DType::kF16, DType::kF32, DType::kF8E4M3, DType::kI8}) {
      for (const int head_dim : {64, 128, 256}) {
        const NormedRopeKv::Desc desc = DescOf(activation, kv, head_dim);
        for (const int64_t tokens : {1, 37}) {
          NormedRopeKv::Args args = Make(desc, tokens);
          Run<NormedRopeKv>(desc, args);
          const std::vector<Array> got = Written(args);
          Room(desc, tokens, &args);
          Run<QkNorm>(desc.norm(),
                      {.qkv = args.qkv, .q_weight = args.q_weight, .k_weight = args.k_weight});
          Run<RopeKv>(desc.rope, RopeArgsOf(args, args.qkv));
          EXPECT_TRUE(got == Written(args)) << desc.ToString() << ", " << tokens;
          memory_->FreeAll();
        }
      }
    }
  }
}

TEST_F(NormedRopeKvTest, ManyCasesAgreeWithTheReference) {
  EXPECT_EQ(Verify(*device_, &RegisterRopeKv, 100), "");
}

}  // namespace
}  // namespace sluice::cuda
