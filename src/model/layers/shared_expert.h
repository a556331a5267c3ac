// The expert that every token takes beside those of the router, where a gate says how much of it:
// sigmoid(product with the hidden state) * mlp(x). Without a gate it is an Mlp. Immutable; the
// ParameterMap must outlive it.
#pragma once

#include "model/forward.h"
#include "model/layers/activations.h"
#include "model/layers/binder.h"
#include "model/layers/fused_linear.h"
#include "model/layers/mlp.h"
#include "ops/gate.h"

namespace sluice::model::layers {

class SharedExpert {
 public:
  static Result<SharedExpert> Make(const Binder& binder, int layer);

  // out = residual + the block over a.normed. Uses a.branch, a.shared_gate and what an Mlp uses.
  Status operator()(ForwardContext& context, const DeviceBatch& batch, const Activations& a,
                    const ops::Tensor& residual, const ops::Tensor& out) const;
  RowsRead reads() const { return {.plain = true, .codes = mlp_.reads().codes}; }

 private:
  Mlp mlp_;
  FusedLinear gate_;
  ops::Bound<ops::SigmoidGateScaleAdd> add_;
};

}  // namespace sluice::model::layers
