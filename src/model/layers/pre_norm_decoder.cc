#include "base/str_cat.h"
#include "model/layers/dense_decoder.h"

namespace sluice::model::layers {

Result<std::unique_ptr<Model>> PreNormDecoder::Make(ModelParts parts) {
  std::unique_ptr<PreNormDecoder> model(new PreNormDecoder(std::move(parts)));
  const Binder binder = model->MakeBinder();
  SLUICE_RETURN_IF_ERROR(model->BuildEnds(binder, /*final_norm=*/true));
  for (int i = 0; i < model->config_.num_layers; ++i) {
    const std::string prefix = StrCat("layers.", i, ".");
    Layer layer;
    SLUICE_ASSIGN_OR_RETURN(layer.input_norm,
                            RmsNorm::Make(binder, prefix + "input_norm", RmsNorm::Of::kResidual));
    SLUICE_ASSIGN_OR_RETURN(layer.mixer, model->MakeMixer(binder, i));
    SLUICE_ASSIGN_OR_RETURN(layer.mlp_norm,
                            RmsNorm::Make(binder, prefix + "mlp_norm", RmsNorm::Of::kResidual));
    SLUICE_ASSIGN_OR_RETURN(layer.mlp, GatedMlp::Make(binder, i));
    model->layers_.push_back(std::move(layer));
  }
  return std::unique_ptr<Model>(std::move(model));
}

Result<std::variant<Attention, GatedDeltaNet>> PreNormDecoder::MakeMixer(const Binder& binder,
                                                                         int layer) const {
  if (config_.layers[layer].kind != files::LayerKind::kLinear) {
    SLUICE_ASSIGN_OR_RETURN(Attention attention, MakeAttention(binder, layer));
    return std::variant<Attention, GatedDeltaNet>(std::move(attention));
  }
  const int group = group_of(layer);
  SLUICE_ASSIGN_OR_RETURN(GatedDeltaNet net,
                          GatedDeltaNet::Make(binder, layer, groups_[group], group));
  return std::variant<Attention, GatedDeltaNet>(std::move(net));
}

Status PreNormDecoder::Forward(ForwardContext& context, const DeviceBatch& batch,
                               const ops::Tensor& logits) const {
  if (batch.tokens() == 0) return OkStatus();
  device::Stream& stream = *context.stream;
  const Activations a = Slice(context, batch);
  SLUICE_RETURN_IF_ERROR(embedding_(stream, batch, a.hidden));
  for (const Layer& layer : layers_) {
    SLUICE_RETURN_IF_ERROR(layer.input_norm(stream, a.hidden, a.normed));
    SLUICE_RETURN_IF_ERROR(
        std::visit([&](const auto& mixer) { return mixer(context, batch, a, a.hidden, a.hidden); },
                   layer.mixer));
    SLUICE_RETURN_IF_ERROR(layer.mlp_norm(stream, a.hidden, a.normed));
    SLUICE_RETURN_IF_ERROR(layer.mlp(stream, a, a.hidden, a.hidden));
  }
  return head_(stream, batch, a.hidden, a, logits);
}

}  // namespace sluice::model::layers
