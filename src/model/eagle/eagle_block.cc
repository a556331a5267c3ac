// EagleHead: what a head of DFlash's form does, whose blocks see what stands before them as K and V
// of what the model gave.
#include "model/eagle/eagle_head.h"

namespace sluice::model {

Status EagleHead::BindDiffusion(const layers::Binder& binder, const device::Device& device,
                                const Model& target) {
  SLUICE_ASSIGN_OR_RETURN(joined_norm_,
                          layers::Norm::Make(binder, "joined_norm", layers::Norm::Of::kResidual));
  // The final norm is the head's, and the output matrix behind it the model's, which reads what its
  // own layers give.
  ModelOptions options = options_;
  options.activation = output_reads_ = target.options().activation;
  const layers::Binder of_norm{config_.layer, options, parameters_, device.ops()};
  const layers::Binder of_output{target.config(), options, target.parameters(), device.ops()};
  SLUICE_ASSIGN_OR_RETURN(logits_, layers::LogitsHead::Make(of_norm, "final_norm", of_output));
  return OkStatus();
}

Status EagleHead::ReadModel(ForwardContext& context, const DeviceBatch& batch,
                            const ops::Tensor& hidden) const {
  CHECK(batch.rows() == 0, batch.rows(), " rows of a pass that gives no logits");
  device::Stream& stream = *context.stream;
  const layers::Activations a =
      layers::Activations::Slice(context.workspace, config_.layer, options_, batch.tokens(), 0);
  SLUICE_RETURN_IF_ERROR(join_(stream, hidden, {}, a.hidden));
  SLUICE_RETURN_IF_ERROR(joined_norm_(stream, a));
  for (const Layer& layer : layers_)
    SLUICE_RETURN_IF_ERROR(layer.attention.WriteKv(context, batch, a));
  return OkStatus();
}

Status EagleHead::DraftBlock(ForwardContext& context, const DeviceBatch& batch,
                             const ops::Tensor& begin, const DraftOutputs& outputs) const {
  device::Stream& stream = *context.stream;
  layers::Activations a = layers::Activations::Slice(context.workspace, config_.layer, options_,
                                                     batch.tokens(), batch.rows());
  a.last_normed.dtype = output_reads_;  // which takes no more memory
  SLUICE_RETURN_IF_ERROR(embedding_(stream, batch, a.hidden));
  if (!begin.empty()) {
    const int64_t sequences = begin.dims[0];
    CHECK(sequences > 0 && batch.tokens() % sequences == 0, batch.tokens(), " of ", sequences);
    DeviceBatch first;
    first.token_ids = begin;
    ops::Tensor rows = a.hidden;
    rows.dims[0] = sequences;
    rows.strides[0] *= batch.tokens() / sequences;
    SLUICE_RETURN_IF_ERROR(embedding_(stream, first, rows));
  }
  for (const Layer& layer : layers_) {
    SLUICE_RETURN_IF_ERROR(layer.input_norm(stream, a));
    SLUICE_RETURN_IF_ERROR(layer.attention(context, batch, a, a.hidden, a.hidden));
    SLUICE_RETURN_IF_ERROR(layer.mlp_norm(stream, a));
    SLUICE_RETURN_IF_ERROR(layer.mlp(context, batch, a, a.hidden, a.hidden));
  }
  return logits_(stream, batch, a, outputs.logits);
}

}  // namespace sluice::model
