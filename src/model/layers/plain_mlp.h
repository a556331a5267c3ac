// The feed-forward block without a gate: down(act(up(x))). Immutable; the ParameterMap must outlive
// it.
#pragma once

#include "model/forward.h"
#include "model/layers/activations.h"
#include "model/layers/binder.h"
#include "model/layers/fused_linear.h"
#include "ops/activation.h"

namespace sluice::model::layers {

class PlainMlp {
 public:
  static Result<PlainMlp> Make(const Binder& binder, int layer);

  // out = the block over a.normed (+ residual). Uses a.gated.
  Status operator()(ForwardContext& context, const DeviceBatch& batch, const Activations& a,
                    const ops::Tensor& residual, const ops::Tensor& out) const;

 private:
  FusedLinear up_, down_;
  ops::Bound<ops::PlainActivation> activation_;
};

}  // namespace sluice::model::layers
