// A layer that keeps its last inputs instead of K and V: one matrix for two gates and the input, a
// short convolution between the gates, output matrix (LFM2). Immutable; the ParameterMap must
// outlive it.
#pragma once

#include "model/forward.h"
#include "model/layers/activations.h"
#include "model/layers/binder.h"
#include "model/layers/fused_linear.h"
#include "model/layers/layer_state.h"

namespace sluice::model::layers {

class GatedConv {
 public:
  // `group`: the layer's group, of kind kState, and its index.
  static Result<GatedConv> Make(const Binder& binder, int layer, const batch::KvGroup& group,
                                int group_index);

  // out = output matrix of the gated convolution of a.normed (+ residual). Uses a.linear_in and
  // a.convolved.
  Status operator()(ForwardContext& context, const DeviceBatch& batch, const Activations& a,
                    const ops::Tensor& residual, const ops::Tensor& out) const;

 private:
  int layer_ = 0, group_ = 0;
  FusedLinear in_, output_;
  LayerConv conv_;
};

}  // namespace sluice::model::layers
