// The feed-forward block of a layer with a dense part and experts beside it, each behind a norm of
// its own, which is added up (Gemma 4). Immutable; the ParameterMap must outlive it.
#pragma once

#include "model/layers/expert_mlp.h"
#include "model/layers/mlp.h"
#include "model/layers/norm.h"

namespace sluice::model::layers {

class DenseAndExperts {
 public:
  static Result<DenseAndExperts> Make(const Binder& binder, int layer);

  // out = the dense part over a.normed, normed, and the experts over norms of a.hidden, normed.
  // Uses a.normed, too. REQUIRES: `residual` is empty and `out` is a.branch.
  Status operator()(ForwardContext& context, const DeviceBatch& batch, const Activations& a,
                    const ops::Tensor& residual, const ops::Tensor& out) const;

 private:
  Mlp dense_;
  ExpertMlp experts_;
  Norm dense_norm_, experts_norm_, sum_;
};

}  // namespace sluice::model::layers
