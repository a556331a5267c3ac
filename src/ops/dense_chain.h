// What stands between the attention of a layer and that of the next one in a decoder with RMSNorms
// before its blocks, as one op, for steps of so few tokens that each of the small ops between the
// products takes as long to start as it runs:
//   middle = attended W_o^T + residual
//   gated  = kind(gate) * up, of gate and up = RMSNorm(middle) W_gate_up^T
//   out    = gated W_down^T + middle
//   qkv    = RMSNorm(out) W_qkv^T, of the next layer; left out behind the last one
// What each of these gives is rounded to the activation type, and so is each norm. An
// implementation gives the same bits as the device's own ops::Linear, ops::Norm and
// ops::GatedActivation one after another, so that a caller may choose by the number of tokens.
#pragma once

#include "ops/activation.h"
#include "ops/linear.h"
#include "ops/op.h"
#include "ops/tensor.h"

namespace sluice::ops {

struct DenseChain {
  static constexpr std::string_view kName = "dense_chain";

  struct Desc {
    // Of all four weights, as ops::Linear has them; they are row-major, without bias and order.
    DType weight = DType::kF32;
    WeightScales weight_scales = WeightScales::kNone;
    ActivationScales x_scales = ActivationScales::kNone;  // not kTensor
    DType activation = DType::kF32;                       // of every tensor but the norms' weights
    int64_t tokens = 1;                                   // of a call, at most
    int64_t attended = 0, hidden = 0, width = 0;          // columns; width: of `gated`
    int64_t qkv = 0;                                      // 0: there is no next layer
    float eps = 1e-5f;
    Activation kind = Activation::kSilu;
    std::string ToString() const;
  };

  struct Args {
    Tensor attended;                          // [tokens, attended], rows of all may be strided
    Tensor residual;                          // [tokens, hidden]
    const PackedWeight* w_o = nullptr;        // [hidden, attended]
    const PackedWeight* w_gate_up = nullptr;  // [2 * width, hidden], the gate's rows first
    const PackedWeight* w_down = nullptr;     // [hidden, width]
    const PackedWeight* w_qkv = nullptr;      // [qkv, hidden]; null without qkv
    Tensor mlp_norm, next_norm;               // F32 [hidden]; next_norm is empty without qkv
    Tensor middle;                            // [tokens, hidden]; may be residual
    Tensor gated;                             // [tokens, width]; may overlap attended and qkv
    Tensor out;                               // [tokens, hidden]; may be middle or residual
    Tensor qkv;                               // [tokens, qkv] or empty; may overlap attended
  };
};

// One of the four products. `residual`: it adds one.
Linear::Desc ProductOf(const DenseChain::Desc& desc, int64_t n, int64_t k, bool residual);

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const DenseChain::Desc& desc, const DenseChain::Args& args);

Support RefDenseChainSupports(const DenseChain::Desc& desc, const device::DeviceFacts& facts);
Status RefDenseChain(device::Stream& stream, const DenseChain::Desc& desc,
                     const DenseChain::Args& args);

}  // namespace sluice::ops
