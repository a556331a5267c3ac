#include "model/layers/altup_decoder.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/str_cat.h"

namespace sluice::model::layers {

Result<std::unique_ptr<Model>> AltUpDecoder::Make(ModelParts parts) {
  std::unique_ptr<AltUpDecoder> model(new AltUpDecoder(std::move(parts)));
  const files::ModelConfig& config = model->config_;
  const Binder binder{config, model->options_, model->parameters_, model->device_.ops()};
  SLUICE_ASSIGN_OR_RETURN(model->embedding_,
                          TokenEmbedding::Make(binder, binder.Get("embedding")->tensor));
  SLUICE_ASSIGN_OR_RETURN(model->streams_, Streams::Make(binder));
  SLUICE_ASSIGN_OR_RETURN(model->layer_inputs_, LayerInputs::Make(binder));
  SLUICE_ASSIGN_OR_RETURN(model->rope_, RopeTables::Make(config, model->options_, model->device_));
  const std::vector<float> ones(static_cast<size_t>(config.head_dim), 1.0f);
  SLUICE_ASSIGN_OR_RETURN(model->ones_, HeadVector::Make(model->device_, ones));
  SLUICE_ASSIGN_OR_RETURN(model->half_, HeadVector::Make(model->device_, {std::sqrt(0.5f)}));
  for (int i = 0; i < config.num_layers; ++i) {
    SLUICE_ASSIGN_OR_RETURN(Layer layer, model->MakeLayer(binder, i));
    model->layers_.push_back(std::move(layer));
  }
  SLUICE_ASSIGN_OR_RETURN(model->head_, LogitsHead::Make(binder, "final_norm"));
  return std::unique_ptr<Model>(std::move(model));
}

Result<AltUpDecoder::Layer> AltUpDecoder::MakeLayer(const Binder& binder, int i) const {
  const files::LayerConfig& config = config_.layers[static_cast<size_t>(i)];
  const std::string prefix = StrCat("layers.", i, ".");
  const int group = group_of(i);
  Layer layer;
  SLUICE_ASSIGN_OR_RETURN(layer.altup, AltUp::Make(binder, i));
  SLUICE_ASSIGN_OR_RETURN(layer.input_norm,
                          Norm::Make(binder, prefix + "input_norm", Norm::Of::kResidual));
  SLUICE_ASSIGN_OR_RETURN(layer.laurel, Laurel::Make(binder, i));
  SLUICE_ASSIGN_OR_RETURN(layer.attention,
                          Attention::Make(binder, i, groups_[static_cast<size_t>(group)], group,
                                          {rope_.Of(config), {}, ones_.tensor()}));
  SLUICE_ASSIGN_OR_RETURN(layer.attention_post_norm,
                          Norm::Make(binder, prefix + "attention_post_norm", Norm::Of::kBranch));
  SLUICE_ASSIGN_OR_RETURN(layer.mlp_norm,
                          Norm::Make(binder, prefix + "mlp_norm", Norm::Of::kSum, half_.tensor()));
  SLUICE_ASSIGN_OR_RETURN(
      layer.mlp,
      Mlp::Make(binder, prefix + "mlp.", config_.mlp_width_of(config), config.gate_deviations));
  SLUICE_ASSIGN_OR_RETURN(layer.mlp_post_norm,
                          Norm::Make(binder, prefix + "mlp_post_norm", Norm::Of::kBranch));
  SLUICE_ASSIGN_OR_RETURN(layer.input, LayerInput::Make(binder, i));
  SLUICE_ASSIGN_OR_RETURN(layer.input_post_norm,
                          Norm::Make(binder, prefix + "layer_input_post_norm", Norm::Of::kBranch));
  return layer;
}

Status AltUpDecoder::Forward(ForwardContext& context, const DeviceBatch& batch,
                             const Outputs& outputs) const {
  if (batch.tokens() == 0) return OkStatus();
  CHECK(outputs.layers.empty(), "hidden states of layers that leave several");
  device::Stream& stream = *context.stream;
  Activations a =
      Activations::Slice(context.workspace, config_, options_, batch.tokens(), batch.rows());
  if (!outputs.hidden.empty()) a.hidden = outputs.hidden;
  const Activations first = Streams::First(a);
  SLUICE_RETURN_IF_ERROR(embedding_(stream, batch, first.hidden));
  SLUICE_RETURN_IF_ERROR(layer_inputs_(stream, batch, first));
  SLUICE_RETURN_IF_ERROR(streams_.Begin(stream, a));
  for (const Layer& layer : layers_) {
    SLUICE_RETURN_IF_ERROR(layer.altup.Predict(stream, a));
    SLUICE_RETURN_IF_ERROR(layer.input_norm(stream, a));
    SLUICE_RETURN_IF_ERROR(layer.laurel(stream, a));
    SLUICE_RETURN_IF_ERROR(layer.attention(context, batch, a, {}, a.branch));
    SLUICE_RETURN_IF_ERROR(layer.attention_post_norm(stream, a));
    SLUICE_RETURN_IF_ERROR(layer.mlp_norm(stream, a));
    SLUICE_RETURN_IF_ERROR(layer.mlp(context, batch, a, {}, a.branch));
    SLUICE_RETURN_IF_ERROR(layer.mlp_post_norm(stream, a));
    SLUICE_RETURN_IF_ERROR(layer.altup.Correct(stream, a));
    SLUICE_RETURN_IF_ERROR(layer.input(context, batch, a, {}, a.branch));
    SLUICE_RETURN_IF_ERROR(layer.input_post_norm(stream, a));
  }
  SLUICE_RETURN_IF_ERROR(streams_.End(stream, a));
  return head_(stream, batch, a, outputs.logits);
}

}  // namespace sluice::model::layers
