#include "model/layers/gated_mlp.h"

#include "base/str_cat.h"

namespace sluice::model::layers {
ops::Activation ActivationOf(const files::ModelConfig& config) {
  switch (config.activation) {
    case files::ActivationKind::kSilu:
      return ops::Activation::kSilu;
    case files::ActivationKind::kGeluTanh:
      return ops::Activation::kGeluTanh;
    case files::ActivationKind::kGeluErf:
      return ops::Activation::kGeluErf;
  }
  return ops::Activation::kSilu;
}

Result<GatedMlp> GatedMlp::Make(const Binder& binder, int layer) {
  GatedMlp mlp;
  mlp.gate_up_ = FusedLinear::Make(binder, StrCat("layers.", layer, ".mlp.gate_up"));
  mlp.down_ = FusedLinear::Make(binder, StrCat("layers.", layer, ".mlp.down"));
  ops::GatedActivation::Desc desc;
  desc.kind = ActivationOf(binder.config);
  desc.activation = binder.options.activation;
  desc.width = binder.config.intermediate_size;
  SLUICE_ASSIGN_OR_RETURN(mlp.activation_, binder.Bind<ops::GatedActivation>(desc));
  return mlp;
}

Status GatedMlp::operator()(ForwardContext& context, const DeviceBatch&, const Activations& a,
                            const ops::Tensor& residual, const ops::Tensor& out) const {
  device::Stream& stream = *context.stream;
  SLUICE_RETURN_IF_ERROR(gate_up_(stream, a.normed, {}, a.gate_up));
  SLUICE_RETURN_IF_ERROR(activation_(stream, {a.gate_up, a.gated}));
  return down_(stream, a.gated, residual, out);
}

}  // namespace sluice::model::layers
