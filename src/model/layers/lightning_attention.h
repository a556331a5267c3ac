// A layer of linear attention, which keeps a running state instead of K and V: one matrix for
// values, keys, queries and gate, SiLU on all but the gate, a recurrence whose state decays by the
// same factor for all tokens, a norm, the gate, output matrix ("MiniMax-01: Scaling Foundation
// Models with Lightning Attention"). Immutable; the ParameterMap must outlive it.
#pragma once

#include <vector>

#include "model/forward.h"
#include "model/layers/activations.h"
#include "model/layers/binder.h"
#include "model/layers/fused_linear.h"
#include "model/layers/head_vector.h"
#include "ops/activation.h"
#include "ops/gate.h"
#include "ops/norm.h"
#include "ops/recurrent.h"

namespace sluice::model::layers {

// By head the logarithm of what a state keeps from token to token in layer `layer` of `layers`.
std::vector<float> LightningDecays(int heads, int layer, int layers);

class LightningAttention {
 public:
  // `group`: the layer's group, of kind kState, and its index.
  static Result<LightningAttention> Make(const Binder& binder, int layer,
                                         const batch::KvGroup& group, int group_index,
                                         device::Device& device);

  // out = output matrix of what the state gives for a.normed (+ residual). Uses a.linear_in and
  // a.recalled.
  Status operator()(ForwardContext& context, const DeviceBatch& batch, const Activations& a,
                    const ops::Tensor& residual, const ops::Tensor& out) const;

 private:
  int layer_ = 0, group_ = 0;
  FusedLinear in_, output_;
  ops::Bound<ops::PlainActivation> silu_;
  ops::Bound<ops::Ssd> ssd_;
  ops::Bound<ops::Norm> norm_;
  ops::Bound<ops::SigmoidGate> gate_;
  ops::Tensor norm_weight_;
  HeadVector decays_;
};

}  // namespace sluice::model::layers
