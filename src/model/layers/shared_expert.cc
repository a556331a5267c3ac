#include "model/layers/shared_expert.h"

#include "base/str_cat.h"

namespace sluice::model::layers {

Result<SharedExpert> SharedExpert::Make(const Binder& binder, int layer) {
  const std::string prefix = StrCat("layers.", layer, ".shared.");
  const DType activation = binder.options.activation;
  SharedExpert shared;
  SLUICE_ASSIGN_OR_RETURN(shared.mlp_,
                          Mlp::Make(binder, prefix, binder.config.experts.shared_width));
  shared.gate_ = FusedLinear::Make(binder, prefix + "gate");
  SLUICE_ASSIGN_OR_RETURN(
      shared.add_, binder.Bind<ops::SigmoidGateScaleAdd>({.activation = activation,
                                                          .out = ops::ResidualDType(activation),
                                                          .width = binder.config.hidden_size}));
  return shared;
}

Status SharedExpert::operator()(ForwardContext& context, const DeviceBatch& batch,
                                const Activations& a, const ops::Tensor& residual,
                                const ops::Tensor& out) const {
  SLUICE_RETURN_IF_ERROR(gate_(*context.stream, a.normed, {}, a.shared_gate));
  SLUICE_RETURN_IF_ERROR(mlp_(context, batch, a, {}, a.branch));
  return add_(*context.stream,
              {.x = a.branch, .gate = a.shared_gate, .residual = residual, .out = out});
}

}  // namespace sluice::model::layers
