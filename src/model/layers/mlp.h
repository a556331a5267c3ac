// The feed-forward block: down(act(gate(x)) * up(x)), or down(act(up(x))) where the model has no
// gate. Immutable; the ParameterMap must outlive it.
#pragma once

#include <optional>
#include <string>

#include "model/forward.h"
#include "model/layers/activations.h"
#include "model/layers/binder.h"
#include "model/layers/fused_linear.h"
#include "ops/activation.h"
#include "ops/group_quant.h"

namespace sluice::model::layers {

// The op's name of what stands between the products of the model's feed-forward parts.
ops::Activation ActivationOf(const files::ModelConfig& config);

class Mlp {
 public:
  // Of the parameters `prefix` + "down" and so on, with `width` numbers between the products.
  // `deviations`: LayerConfig::gate_deviations.
  static Result<Mlp> Make(const Binder& binder, const std::string& prefix, int64_t width,
                          std::optional<float> deviations = {});

  // out = the block over a.normed_rows() (+ residual). Uses a.gate_up and a.gated.
  Status operator()(ForwardContext& context, const DeviceBatch& batch, const Activations& a,
                    const ops::Tensor& residual, const ops::Tensor& out) const;
  RowsRead reads() const { return first_.reads(); }

 private:
  int64_t width_ = 0;
  FusedLinear first_, down_;                // first: gate and up, or up alone
  ops::Bound<ops::GatedActivation> gated_;  // unbound: there is no gate, or down reads codes
  ops::Bound<ops::GroupQuant> coded_;       // the gate's, bound where down reads codes
  ops::Bound<ops::PlainActivation> plain_;  // bound where there is no gate
  ops::Bound<ops::GaussianTopK> top_k_;     // of the gate; unbound: all of it stays
};

}  // namespace sluice::model::layers
