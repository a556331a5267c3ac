#include "base/str_cat.h"
#include "model/layers/dense_decoder.h"

namespace sluice::model::layers {

Result<std::unique_ptr<Model>> SandwichNormDecoder::Make(ModelParts parts) {
  std::unique_ptr<SandwichNormDecoder> model(new SandwichNormDecoder(std::move(parts)));
  const Binder binder = model->MakeBinder();
  SLUICE_RETURN_IF_ERROR(model->BuildEnds(binder, /*final_norm=*/false));
  SLUICE_ASSIGN_OR_RETURN(model->first_norm_,
                          RmsNorm::Make(binder, "layers.0.input_norm", RmsNorm::Of::kResidual));
  const int layers = model->config_.num_layers;
  for (int i = 0; i < layers; ++i) {
    const std::string prefix = StrCat("layers.", i, ".");
    const std::string next =
        i + 1 < layers ? StrCat("layers.", i + 1, ".input_norm") : std::string("final_norm");
    Layer layer;
    SLUICE_ASSIGN_OR_RETURN(layer.attention, model->MakeAttention(binder, i));
    SLUICE_ASSIGN_OR_RETURN(
        layer.attention_post_norm,
        RmsNorm::Make(binder, prefix + "attention_post_norm", RmsNorm::Of::kBranch));
    SLUICE_ASSIGN_OR_RETURN(layer.mlp_norm,
                            RmsNorm::Make(binder, prefix + "mlp_norm", RmsNorm::Of::kSum));
    SLUICE_ASSIGN_OR_RETURN(layer.mlp, GatedMlp::Make(binder, i));
    SLUICE_ASSIGN_OR_RETURN(layer.mlp_post_norm,
                            RmsNorm::Make(binder, prefix + "mlp_post_norm", RmsNorm::Of::kBranch));
    SLUICE_ASSIGN_OR_RETURN(layer.next_norm, RmsNorm::Make(binder, next, RmsNorm::Of::kSum));
    model->layers_.push_back(std::move(layer));
  }
  return std::unique_ptr<Model>(std::move(model));
}

Status SandwichNormDecoder::Forward(ForwardContext& context, const DeviceBatch& batch,
                                    const ops::Tensor& logits) const {
  if (batch.tokens() == 0) return OkStatus();
  device::Stream& stream = *context.stream;
  const Activations a = Slice(context, batch);
  SLUICE_RETURN_IF_ERROR(embedding_(stream, batch, a.hidden));
  SLUICE_RETURN_IF_ERROR(first_norm_(stream, a.hidden, a.normed));
  for (const Layer& layer : layers_) {
    SLUICE_RETURN_IF_ERROR(layer.attention(context, batch, a, {}, a.branch));
    SLUICE_RETURN_IF_ERROR(layer.attention_post_norm(stream, a.branch, a.branch));
    SLUICE_RETURN_IF_ERROR(layer.mlp_norm(stream, a.branch, a.hidden, a.normed));
    SLUICE_RETURN_IF_ERROR(layer.mlp(stream, a, {}, a.branch));
    SLUICE_RETURN_IF_ERROR(layer.mlp_post_norm(stream, a.branch, a.branch));
    SLUICE_RETURN_IF_ERROR(layer.next_norm(stream, a.branch, a.hidden, a.normed));
  }
  return head_(stream, batch, a.normed, a, logits);
}

}  // namespace sluice::model::layers
