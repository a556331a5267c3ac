// The feed-forward block of a layer with experts: for each token the sum over the experts that a
// router gives it of weight * down(act(gate(x)) * up(x)). Immutable; the ParameterMap must outlive
// it.
#pragma once

#include "model/forward.h"
#include "model/layers/activations.h"
#include "model/layers/binder.h"
#include "model/layers/fused_linear.h"
#include "ops/activation.h"
#include "ops/experts.h"

namespace sluice::model::layers {

class ExpertMlp {
 public:
  static Result<ExpertMlp> Make(const Binder& binder, int layer);

  // out = the block over a.normed (+ residual). Uses the activations of experts.
  Status operator()(ForwardContext& context, const DeviceBatch& batch, const Activations& a,
                    const ops::Tensor& residual, const ops::Tensor& out) const;

 private:
  // out = the products of x, whose rows `tokens` names or which is empty, with `weight`.
  static Status Multiply(device::Stream& stream, const weights::Parameter& weight,
                         const Activations& a, const ops::Tensor& x, const ops::Tensor& tokens,
                         const ops::Tensor& out);

  FusedLinear router_;
  const weights::Parameter* gate_up_ = nullptr;
  const weights::Parameter* down_ = nullptr;
  ops::Bound<ops::RouteExperts> route_;
  ops::Tensor score_bias_;  // empty: none
  ops::Bound<ops::GroupExperts> group_;
  ops::Bound<ops::GatedActivation> activation_;
  ops::Bound<ops::CombineExperts> combine_;
};

}  // namespace sluice::model::layers
