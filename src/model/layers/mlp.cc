#include "model/layers/mlp.h"

namespace sluice::model::layers {

ops::Activation ActivationOf(const files::ModelConfig& config) {
  switch (config.activation) {
    case files::ActivationKind::kSilu:
      return ops::Activation::kSilu;
    case files::ActivationKind::kGeluTanh:
      return ops::Activation::kGeluTanh;
    case files::ActivationKind::kGeluErf:
      return ops::Activation::kGeluErf;
    case files::ActivationKind::kReluSquared:
      return ops::Activation::kReluSquared;
    case files::ActivationKind::kClampedSwiglu:
      return ops::Activation::kClampedSwiglu;
  }
  return ops::Activation::kSilu;
}

Result<Mlp> Mlp::Make(const Binder& binder, const std::string& prefix, int64_t width,
                      std::optional<float> deviations) {
  const files::ModelConfig& config = binder.config;
  Mlp mlp;
  mlp.width_ = width;
  mlp.first_ = FusedLinear::Make(binder, prefix + (config.plain_mlp ? "up" : "gate_up"));
  mlp.down_ = FusedLinear::Make(binder, prefix + "down");
  const ops::Activation kind = ActivationOf(config);
  const DType activation = binder.options.activation;
  if (config.plain_mlp) {
    SLUICE_ASSIGN_OR_RETURN(mlp.plain_,
                            binder.Bind<ops::PlainActivation>(
                                {.kind = kind, .activation = activation, .width = width}));
  } else if (mlp.down_.reads().codes) {
    SLUICE_ASSIGN_OR_RETURN(mlp.coded_,
                            binder.Bind<ops::GroupQuant>({.activation = activation,
                                                          .width = width,
                                                          .gated = true,
                                                          .kind = kind,
                                                          .gate_scale = config.mlp_gate_scale,
                                                          .out_scale = config.mlp_inner_scale}));
  } else {
    SLUICE_ASSIGN_OR_RETURN(
        mlp.gated_, binder.Bind<ops::GatedActivation>({.kind = kind,
                                                       .activation = activation,
                                                       .width = width,
                                                       .gate_scale = config.mlp_gate_scale,
                                                       .out_scale = config.mlp_inner_scale}));
  }
  if (deviations) {
    CHECK(!config.plain_mlp, "a feed-forward part without a gate has none to make sparse");
    SLUICE_ASSIGN_OR_RETURN(
        mlp.top_k_, binder.Bind<ops::GaussianTopK>(
                        {.activation = activation, .width = width, .deviations = *deviations}));
  }
  return mlp;
}

Status Mlp::operator()(ForwardContext& context, const DeviceBatch&, const Activations& a,
                       const ops::Tensor& residual, const ops::Tensor& out) const {
  device::Stream& stream = *context.stream;
  const ops::Tensor inner = a.gated.Columns(0, width_);
  if (plain_.bound()) {
    SLUICE_RETURN_IF_ERROR(first_(stream, a.normed_rows(), {}, inner));
    SLUICE_RETURN_IF_ERROR(plain_(stream, {inner}));
    return down_(stream, inner, residual, out);
  }
  const ops::Tensor gate_up = a.gate_up.Columns(0, 2 * width_);
  SLUICE_RETURN_IF_ERROR(first_(stream, a.normed_rows(), {}, gate_up));
  if (top_k_.bound()) SLUICE_RETURN_IF_ERROR(top_k_(stream, {.x = gate_up.Columns(0, width_)}));
  if (coded_.bound()) {
    const ops::CodedRows codes = CodesIn(inner, width_);
    SLUICE_RETURN_IF_ERROR(
        coded_(stream, {.x = gate_up, .counts = {}, .codes = codes.codes, .scales = codes.scales}));
    return down_(stream, {{}, codes}, residual, out);
  }
  SLUICE_RETURN_IF_ERROR(gated_(stream, {gate_up, inner}));
  return down_(stream, inner, residual, out);
}

}  // namespace sluice::model::layers
