// The feed-forward block of a layer with experts: for each token the sum over the experts that a
// router gives it of weight * down(act(gate(x)) * up(x)). Immutable; the ParameterMap must outlive
// it.
#pragma once

#include <optional>
#include <string>

#include "model/forward.h"
#include "model/layers/activations.h"
#include "model/layers/binder.h"
#include "model/layers/fused_linear.h"
#include "model/layers/norm.h"
#include "ops/activation.h"
#include "ops/experts.h"
#include "ops/fake_balance_experts.h"
#include "ops/map_experts.h"

namespace sluice::model::layers {

class ExpertMlp {
 public:
  static Result<ExpertMlp> Make(const Binder& binder, int layer);

  // out = the block over a.normed, or where experts stand beside a dense part over a.hidden and
  // through a.normed (+ residual); may then be a.normed. Uses the activations of experts.
  Status operator()(ForwardContext& context, const DeviceBatch& batch, const Activations& a,
                    const ops::Tensor& residual, const ops::Tensor& out) const;

 private:
  // The matrices of all experts and their biases [experts, rows], if they have some.
  struct Matrices {
    const weights::Parameter* weight = nullptr;
    ops::Tensor bias;
  };
  // Puts tokens together by expert, and counts who takes which where the context asks for it.
  Status Group(ForwardContext& context, const DeviceBatch& batch, const Activations& a) const;
  // Experts become the slots that hold them, and who takes which is counted before.
  Status Map(ForwardContext& context, const DeviceBatch& batch, const Activations& a) const;
  // The numbers of this layer in a matrix of all layers that have experts; empty where that is.
  ops::Tensor RowOf(const ops::Tensor& all) const;
  // Where each expert's places begin; experts are slots where there are such.
  ops::Tensor StartsOf(const Activations& a) const;
  static Matrices MatricesOf(const Binder& binder, const std::string& name, int experts);
  // out = the products of x, whose rows `tokens` names or which is empty, with `matrices`.
  Status Multiply(device::Stream& stream, const Matrices& matrices, const Activations& a,
                  const ops::Tensor& x, const ops::Tensor& tokens, const ops::Tensor& out) const;

  int counts_row_ = -1;      // of ForwardContext::expert_counts; none of a head that guesses tokens
  Norm router_norm_, norm_;  // of a.hidden; unbound: a.normed is as it has to be
  FusedLinear router_;
  Matrices first_, down_;
  ops::Bound<ops::RouteExperts> route_;
  ops::Tensor score_bias_, scales_;  // empty: none
  std::optional<ops::Bound<ops::FakeBalanceExperts>> fake_balance_;
  ops::Bound<ops::MapExperts> map_;  // unbound: experts lie in their order
  ops::Bound<ops::GroupExperts> group_;
  ops::Bound<ops::ScaleExperts> scale_;  // unbound: weights are on what experts give
  ops::Bound<ops::GatedActivation> gated_;
  ops::Bound<ops::PlainActivation> plain_;  // instead, where experts have no gate
  ops::Bound<ops::CombineExperts> combine_;
};

}  // namespace sluice::model::layers
