// A layer of Mamba-2, which keeps a running state instead of K and V: one matrix for gate, values,
// keys, queries and step sizes, a short convolution, a recurrence whose state decays, a norm of
// what it gives times the gate, output matrix ("Transformers are SSMs: Generalized Models and
// Efficient Algorithms Through Structured State Space Duality"). Immutable; the ParameterMap must
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

// The op's descriptor for the layers of a group of states: of Mamba-2, or of lightning attention,
// which has neither step sizes nor a skip.
ops::Ssd::Desc SsdDesc(const files::ModelConfig& config, const ModelOptions& options,
                       const batch::KvGroup& group);

class Mamba {
 public:
  // `group`: the layer's group, of kind kState, and its index.
  static Result<Mamba> Make(const Binder& binder, int layer, const batch::KvGroup& group,
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
  ops::Bound<ops::Ssd> ssd_;
  ops::Bound<ops::GatedNorm> norm_;
  ops::Tensor dt_bias_, a_, skip_;
  ops::Tensor norm_weight_;  // empty: there is no norm
};

}  // namespace sluice::model::layers
