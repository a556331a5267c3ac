// What stands between the attention of a layer and that of the next one where the layer's
// feed-forward part is made of experts, as one op, for steps of one token: as ops::DenseChain, with
//   middle = attended W_o^T + residual
//   x      = RMSNorm(middle)
//   ids, weights = route_experts(x W_router^T)
//   out    = middle + the sum over choices of weight * (kind(gate) * up) W_down^T,
//            of gate and up = x W_gate_up^T of the expert
//   qkv    = RMSNorm(out) W_qkv^T, of the next layer; left out behind the last one
// An implementation gives the bits of the device's own ops for the parts one after another:
// ops::Linear, ops::Norm, ops::RouteExperts, ops::GroupedLinear, ops::GatedActivation and
// ops::CombineExperts.
#pragma once

#include "ops/activation.h"
#include "ops/experts.h"
#include "ops/grouped_linear.h"

namespace sluice::ops {

struct ExpertsChain {
  static constexpr std::string_view kName = "experts_chain";

  struct Desc {
    // Of all weights but the router's, as ops::Linear has them; all are row-major, without bias and
    // order.
    DType weight = DType::kF32;
    WeightScales weight_scales = WeightScales::kNone;
    ActivationScales x_scales = ActivationScales::kNone;  // not kTensor
    DType router = DType::kF32;
    DType activation = DType::kF32;               // of every tensor that is not told
    int64_t attended = 0, hidden = 0, width = 0;  // columns; width: of what a gate opens for
    int64_t qkv = 0;                              // 0: there is no next layer
    RouteExperts::Desc route;
    float eps = 1e-5f;
    Activation kind = Activation::kSilu;
    std::string ToString() const;
  };

  struct Args {
    Tensor attended;                          // [1, attended]
    Tensor residual;                          // [1, hidden]
    const PackedWeight* w_o = nullptr;        // [hidden, attended]
    const PackedWeight* w_router = nullptr;   // [experts, hidden]
    const PackedWeight* w_gate_up = nullptr;  // [experts * 2 * width, hidden], a gate's rows first
    const PackedWeight* w_down = nullptr;     // [experts * hidden, width]
    const PackedWeight* w_qkv = nullptr;      // [qkv, hidden]; null without qkv
    Tensor mlp_norm, next_norm;               // F32 [hidden]; next_norm is empty without qkv
    Tensor score_bias = {}, expert_scales = {};  // as RouteExperts::Args has bias and scales
    Tensor middle;                               // [1, hidden]; may be residual
    Tensor logits;                     // F32 [1, experts], of the router; may overlap attended, qkv
    Tensor gated;                      // [top_k, width]: room; may overlap attended and qkv
    Tensor out;                        // [1, hidden]; may be middle or residual
    Tensor qkv;                        // [1, qkv] or empty; may overlap attended
    Tensor counts = {}, counted = {};  // as GroupExperts::Args has them
  };
};

// The products: one that is no expert's, the router's, the experts' first ones and second ones.
// `residual`: it adds one.
Linear::Desc ProductOf(const ExpertsChain::Desc& desc, int64_t n, int64_t k, bool residual);
Linear::Desc RouterOf(const ExpertsChain::Desc& desc);
GroupedLinear::Desc FirstProductsOf(const ExpertsChain::Desc& desc);
GroupedLinear::Desc SecondProductsOf(const ExpertsChain::Desc& desc);

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const ExpertsChain::Desc& desc, const ExpertsChain::Args& args);

Support RefExpertsChainSupports(const ExpertsChain::Desc& desc, const device::DeviceFacts& facts);
Status RefExpertsChain(device::Stream& stream, const ExpertsChain::Desc& desc,
                       const ExpertsChain::Args& args);

}  // namespace sluice::ops
