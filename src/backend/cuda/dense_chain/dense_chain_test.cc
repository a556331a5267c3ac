// Dense chains on the first CUDA device: against the reference, and bit by bit against the device's
// own ops for the parts.
#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "backend/cuda/cuda_test.h"
#include "backend/cuda/dense_chain/impls.h"
#include "backend/cuda/dense_chain/launches_fixture.h"
#include "ops/dense_chain.h"
#include "ops/norm.h"

namespace sluice::cuda {
namespace {

using ops::Array;
using ops::DenseChain;
using ops::Tensor;

using DenseChainTest = CudaTest;

TEST_F(DenseChainTest, AgreesWithTheReference) {
  EXPECT_EQ(Verify(*device_, &RegisterDenseChain, 30), "");
}

DenseChain::Desc DescOf(int64_t attended, int64_t hidden, int64_t width, int64_t qkv) {
  return {.weight = DType::kF8E4M3,
          .weight_scales = ops::WeightScales::kBlock,
          .x_scales = ops::ActivationScales::kBlock,
          .activation = DType::kBF16,
          .tokens = 4,
          .attended = attended,
          .hidden = hidden,
          .width = width,
          .qkv = qkv};
}

// One layer's weights and rows on the device, and both ways to run it.
class Layer {
 public:
  Layer(DeviceMemory& memory, const DenseChain::Desc& desc, int64_t tokens)
      : memory_(memory), desc_(desc), tokens_(tokens) {
    args_.attended = Rows(desc.attended);
    args_.residual = Rows(desc.hidden);
    args_.w_o = Weight(desc.hidden, desc.attended);
    args_.w_gate_up = Weight(2 * desc.width, desc.hidden);
    args_.w_down = Weight(desc.hidden, desc.width);
    args_.mlp_norm = Filled(DType::kF32, {desc.hidden});
    args_.middle = Rows(desc.hidden);
    args_.gated = Rows(desc.width);
    args_.out = Rows(desc.hidden);
    normed_ = Rows(desc.hidden);
    gate_up_ = Rows(2 * desc.width);
    if (desc.qkv == 0) return;
    args_.w_qkv = Weight(desc.qkv, desc.hidden);
    args_.next_norm = Filled(DType::kF32, {desc.hidden});
    args_.qkv = Rows(desc.qkv);
  }

  Status RunOne(device::Stream& stream) const {
    SLUICE_ASSIGN_OR_RETURN(const auto chain, ops::Bind<DenseChain>(memory_.device().ops(), desc_));
    return chain(stream, args_);
  }
  Status RunParts(device::Stream& stream) const {
    SLUICE_RETURN_IF_ERROR(
        Product(stream, args_.attended, args_.w_o, args_.residual, args_.middle));
    SLUICE_RETURN_IF_ERROR(Norm(stream, args_.middle, args_.mlp_norm));
    SLUICE_RETURN_IF_ERROR(Product(stream, normed_, args_.w_gate_up, {}, gate_up_));
    SLUICE_ASSIGN_OR_RETURN(
        const auto gate, ops::Bind<ops::GatedActivation>(
                             memory_.device().ops(), {desc_.kind, desc_.activation, desc_.width}));
    SLUICE_RETURN_IF_ERROR(gate(stream, {gate_up_, args_.gated}));
    SLUICE_RETURN_IF_ERROR(Product(stream, args_.gated, args_.w_down, args_.middle, args_.out));
    if (desc_.qkv == 0) return OkStatus();
    SLUICE_RETURN_IF_ERROR(Norm(stream, args_.out, args_.next_norm));
    return Product(stream, normed_, args_.w_qkv, {}, args_.qkv);
  }

  // Everything that a run gives, on the host.
  std::vector<Array> Outputs() const {
    std::vector<Array> outputs;
    for (const Tensor* t : {&args_.middle, &args_.gated, &args_.out, &args_.qkv}) {
      if (!t->empty())
        outputs.push_back(memory_.Download(*t, Array(t->dtype, {tokens_, t->dims[1]})));
    }
    return outputs;
  }
  void Spoil() const {
    for (const Tensor* t : {&args_.middle, &args_.gated, &args_.out, &args_.qkv}) {
      if (t->empty()) continue;
      Array array(t->dtype, {tokens_, t->dims[1]});
      array.Fill(777.0f);
      memory_.Write(*t, array);
    }
  }

 private:
  Tensor Filled(DType dtype, std::vector<int64_t> dims) {
    Array array(dtype, std::move(dims));
    noise_.Fill(array, 1.0f);
    return memory_.Upload(array);
  }
  Tensor Rows(int64_t width) { return Filled(DType::kBF16, {tokens_, width}); }
  const ops::PackedWeight* Weight(int64_t n, int64_t k) {
    Array codes(DType::kF8E4M3, {n, k}), scales(DType::kF32, {(n + 127) / 128, k / 128});
    std::byte* const data = codes.tensor().data;
    const size_t count = codes.Count();
    for (size_t i = 0; i < count; ++i)  // finite ones
      data[i] = static_cast<std::byte>((noise_.Next() & 0xbf) | 4);
    for (size_t i = 0; i < scales.Count(); ++i) scales.Set(i, 0.03f + 0.01f * noise_.Value());
    weights_.push_back({memory_.Upload(codes), DType::kF8E4M3, ops::LayoutId::kRowMajor, n, k});
    weights_.back().scales = memory_.Upload(scales);
    return &weights_.back();
  }
  Status Product(device::Stream& stream, const Tensor& x, const ops::PackedWeight* weight,
                 const Tensor& residual, const Tensor& out) const {
    SLUICE_ASSIGN_OR_RETURN(
        const auto linear,
        ops::Bind<ops::Linear>(memory_.device().ops(),
                               ProductOf(desc_, weight->n, weight->k, !residual.empty())));
    return linear(stream, {.x = x, .weight = weight, .residual = residual, .out = out});
  }
  Status Norm(device::Stream& stream, const Tensor& x, const Tensor& weight) const {
    SLUICE_ASSIGN_OR_RETURN(const auto norm, ops::Bind<ops::Norm>(memory_.device().ops(),
                                                                  {.activation = desc_.activation,
                                                                   .hidden = desc_.hidden,
                                                                   .eps = desc_.eps}));
    return norm(stream, {.x = x, .weight = weight, .out = normed_});
  }

  DeviceMemory& memory_;
  const DenseChain::Desc desc_;
  const int64_t tokens_;
  ops::TestNoise noise_{7};
  std::deque<ops::PackedWeight> weights_;
  DenseChain::Args args_;
  Tensor normed_, gate_up_;
};

// Slabs that no thread block has, one, or many; pieces that not all groups have a stage of.
TEST_F(DenseChainTest, GivesTheBitsOfItsParts) {
  for (const DenseChain::Desc& desc :
       {DescOf(512, 512, 512, 16), DescOf(2048, 2560, 6656, 0), DescOf(1024, 4096, 2048, 3072)}) {
    for (int64_t tokens = 1; tokens <= desc.tokens; ++tokens) {
      const Layer layer(*memory_, desc, tokens);
      ASSERT_TRUE(layer.RunParts(*stream_).ok());
      const std::vector<Array> expected = layer.Outputs();
      layer.Spoil();
      const Status status = layer.RunOne(*stream_);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_TRUE(layer.Outputs() == expected) << desc.ToString() << ", " << tokens;
      memory_->FreeAll();
    }
  }
}

// In a graph, one launch behind the other, of chains with and without a next layer, which wait for
// all thread blocks a different number of times.
TEST_F(DenseChainTest, LaunchesFollowOneAnother) {
  const Layer with(*memory_, DescOf(1024, 1024, 2048, 1536), 1),
      without(*memory_, DescOf(1024, 1024, 2048, 0), 2);
  ExpectLaunchesFollow(*device_, *stream_, with, without);
}

}  // namespace
}  // namespace sluice::cuda
