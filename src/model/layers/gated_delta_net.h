// A layer that keeps a running state instead of K and V: one matrix for queries, keys, values, gate
// and step sizes, a short convolution, the gated delta rule, a norm with a gate, output matrix
// ("Gated Delta Networks: Improving Mamba2 with Delta Rule"). Immutable; the ParameterMap must
// outlive it.
#pragma once

#include "model/forward.h"
#include "model/layers/activations.h"
#include "model/layers/binder.h"
#include "model/layers/fused_linear.h"
#include "model/layers/layer_state.h"
#include "ops/gate.h"
#include "ops/recurrent.h"

namespace sluice::model::layers {

// The op's descriptor for the layers of a group of states.
ops::GatedDelta::Desc GatedDeltaDesc(const files::ModelConfig& config, const ModelOptions& options,
                                     const batch::KvGroup& group);

class GatedDeltaNet {
 public:
  // `group`: the layer's group, of kind kState, and its index.
  static Result<GatedDeltaNet> Make(const Binder& binder, int layer, const batch::KvGroup& group,
                                    int group_index);

  // out = output matrix of what the state gives for a.normed (+ residual). Uses a.linear_in,
  // a.convolved, a.recalled.
  Status operator()(ForwardContext& context, const DeviceBatch& batch, const Activations& a,
                    const ops::Tensor& residual, const ops::Tensor& out) const;

 private:
  Status Recall(ForwardContext& context, const DeviceBatch& batch, const Activations& a) const;

  int layer_ = 0, group_ = 0;
  FusedLinear in_, output_;
  LayerConv conv_;
  ops::Bound<ops::GatedDelta> delta_;
  ops::Bound<ops::GatedNorm> norm_;
  ops::Tensor dt_bias_, a_log_, norm_weight_;
};

}  // namespace sluice::model::layers
