#include "model/layers/layer_inputs.h"

#include <cmath>
#include <string>

#include "base/check.h"
#include "base/str_cat.h"
#include "model/layers/mlp.h"

namespace sluice::model::layers {

Result<LayerInputs> LayerInputs::Make(const Binder& binder) {
  const files::ModelConfig& config = binder.config;
  const files::LayerInputsConfig& inputs = config.layer_inputs;
  LayerInputs layer;
  SLUICE_ASSIGN_OR_RETURN(layer.convert_, Norm::Make(binder, "", Norm::Of::kResidual));
  layer.projection_ = FusedLinear::Make(binder, "layer_inputs.projection");
  ops::QkNorm::Desc norm;
  norm.activation = binder.options.activation;
  norm.q_heads = config.num_layers;
  norm.head_dim = inputs.width;
  // What it reads is not divided by the root of the hidden size, as in the model, but this is.
  norm.eps = config.norm_eps * static_cast<float>(config.hidden_size);
  SLUICE_ASSIGN_OR_RETURN(layer.norm_, binder.Bind<ops::QkNorm>(norm));
  layer.norm_weight_ = binder.Get("layer_inputs.norm")->tensor;
  layer.table_ = binder.Get("layer_inputs.embedding")->tensor;
  ops::Embedding::Desc embedding;
  embedding.table = layer.table_.dtype;
  embedding.activation = binder.options.activation;
  embedding.vocab = layer.table_.dims[0];
  embedding.hidden = layer.table_.dims[1];
  embedding.scale = std::sqrt(0.5f * static_cast<float>(inputs.width));
  embedding.add = true;
  // Tokens of images and sounds, which have no rows.
  embedding.first_beyond = embedding.vocab < config.vocab_size;
  SLUICE_ASSIGN_OR_RETURN(layer.embedding_, binder.Bind<ops::Embedding>(embedding));
  return layer;
}

Status LayerInputs::operator()(device::Stream& stream, const DeviceBatch& batch,
                               const Activations& a) const {
  SLUICE_RETURN_IF_ERROR(convert_(stream, a));
  SLUICE_RETURN_IF_ERROR(projection_(stream, a.normed, {}, a.layer_inputs));
  SLUICE_RETURN_IF_ERROR(
      norm_(stream, {.qkv = a.layer_inputs, .q_weight = norm_weight_, .k_weight = norm_weight_}));
  return embedding_(stream, {.ids = batch.token_ids, .table = table_, .out = a.layer_inputs});
}

Result<LayerInput> LayerInput::Make(const Binder& binder, int layer) {
  const files::ModelConfig& config = binder.config;
  const std::string prefix = StrCat("layers.", layer, ".layer_input.");
  LayerInput input;
  input.width_ = config.layer_inputs.width;
  input.first_ = layer * input.width_;
  input.gate_ = FusedLinear::Make(binder, prefix + "gate");
  input.output_ = FusedLinear::Make(binder, prefix + "output");
  SLUICE_ASSIGN_OR_RETURN(input.beside_,
                          binder.Bind<ops::Norm>({.kind = ops::NormKind::kNone,
                                                  .activation = binder.options.activation,
                                                  .hidden = input.width_}));
  SLUICE_ASSIGN_OR_RETURN(
      input.gated_, binder.Bind<ops::GatedActivation>({.kind = ActivationOf(config),
                                                       .activation = binder.options.activation,
                                                       .width = input.width_}));
  return input;
}

Status LayerInput::operator()(ForwardContext& context, const DeviceBatch&, const Activations& a,
                              const ops::Tensor& residual, const ops::Tensor& out) const {
  CHECK(residual.empty(), "a norm stands behind what a layer makes of its input");
  device::Stream& stream = *context.stream;
  // Rows lie one behind the other, whatever the model's feed-forward parts need.
  const auto dense = [](ops::Tensor tensor, int64_t width) {
    tensor.dims[1] = tensor.strides[0] = width;
    return tensor;
  };
  const ops::Tensor gate_up = dense(a.gate_up, 2 * width_), inner = dense(a.gated, width_);
  SLUICE_RETURN_IF_ERROR(gate_(stream, a.normed, {}, gate_up.Columns(0, width_)));
  SLUICE_RETURN_IF_ERROR(beside_(stream, {.x = a.layer_inputs.Columns(first_, width_),
                                          .out = gate_up.Columns(width_, width_)}));
  SLUICE_RETURN_IF_ERROR(gated_(stream, {gate_up, inner}));
  return output_(stream, inner, {}, out);
}

}  // namespace sluice::model::layers
