// The feed-forward block of a layer with experts: for each token the sum over the experts that a
// router gives it of weight * down(act(gate(x)) * up(x)). Immutable; the ParameterMap must outlive
// it.
#pragma once

#include <optional>
#include <string>

#include "model/forward.h"
#include "model/layers/activations.h"
#include "model/layers/binder.h"
#include "model/layers/expert_products.h"
#include "model/layers/fused_linear.h"
#include "model/layers/host_experts.h"
#include "model/layers/norm.h"
#include "ops/experts.h"
#include "ops/fake_balance_experts.h"
#include "ops/map_experts.h"

namespace sluice::model::layers {

// How a token's experts are found.
ops::RouteExperts::Desc RouteOf(const files::ExpertsConfig& experts);

// The numbers of one layer in a matrix of all layers that have experts; empty where that is, or
// where the row is -1.
ops::Tensor RowOfCounts(const ops::Tensor& all, int row);

class ExpertMlp {
 public:
  static Result<ExpertMlp> Make(const Binder& binder, int layer);

  // out = the block over a.normed, or where experts stand beside a dense part over a.hidden and
  // through a.normed (+ residual); may then be a.normed. Uses the activations of experts.
  Status operator()(ForwardContext& context, const DeviceBatch& batch, const Activations& a,
                    const ops::Tensor& residual, const ops::Tensor& out) const;

  // The layer's row of ForwardContext::expert_counts; -1: none of a head that guesses tokens.
  int counts_row() const { return counts_row_; }

 private:
  // Experts become the slots that hold them, and who takes which is counted before.
  Status Map(ForwardContext& context, const DeviceBatch& batch, const Activations& a) const;
  ops::Tensor RowOf(const ops::Tensor& all) const { return RowOfCounts(all, counts_row_); }
  // Counts who takes which, of experts that the device does not put together itself.
  Status Count(ForwardContext& context, const DeviceBatch& batch, const Activations& a) const;

  int counts_row_ = -1;
  Norm router_norm_, norm_;  // of a.hidden; unbound: a.normed is as it has to be
  FusedLinear router_;
  ops::Bound<ops::RouteExperts> route_;
  ops::Tensor score_bias_, scales_;  // empty: none
  std::optional<ops::Bound<ops::FakeBalanceExperts>> fake_balance_;
  ops::Bound<ops::MapExperts> map_;  // unbound: experts lie in their order
  ExpertProducts products_;          // on the host where host_ is not null
  const HostExperts* host_ = nullptr;
  ops::Bound<ops::GroupExperts> count_;  // bound where host_ is not null
};

}  // namespace sluice::model::layers
