#include "model/layers/token_embedding.h"

namespace sluice::model::layers {

Result<TokenEmbedding> TokenEmbedding::Make(const Binder& binder, const ops::Tensor& table) {
  TokenEmbedding layer;
  layer.table_ = table;
  ops::Embedding::Desc desc;
  desc.table = layer.table_.dtype;
  desc.activation = ops::ResidualDType(binder.options.activation);
  desc.vocab = binder.config.vocab_size;
  desc.hidden = binder.config.hidden_size;
  desc.scale = binder.config.embedding_scale;
  SLUICE_ASSIGN_OR_RETURN(layer.embedding_, binder.Bind<ops::Embedding>(desc));
  return layer;
}

Status TokenEmbedding::operator()(device::Stream& stream, const DeviceBatch& batch,
                                  const ops::Tensor& out) const {
  ops::Embedding::Args args;
  args.ids = batch.token_ids;
  args.table = table_;
  args.out = out;
  return embedding_(stream, args);
}

Result<LogitsHead> LogitsHead::Make(const Binder& binder, const std::string& final_norm) {
  LogitsHead head;
  ops::GatherRows::Desc gather;
  gather.activation = final_norm.empty() ? binder.options.activation
                                         : ops::ResidualDType(binder.options.activation);
  gather.width = binder.config.hidden_size;
  SLUICE_ASSIGN_OR_RETURN(head.gather_, binder.Bind<ops::GatherRows>(gather));
  if (!final_norm.empty()) {
    SLUICE_ASSIGN_OR_RETURN(head.norm_, Norm::Make(binder, final_norm, Norm::Of::kLast));
  }
  head.output_ = FusedLinear::Make(binder, "output");
  if (binder.config.logit_soft_cap) {
    ops::SoftCap::Desc cap;
    cap.activation = DType::kF32;
    cap.cap = *binder.config.logit_soft_cap;
    SLUICE_ASSIGN_OR_RETURN(head.soft_cap_, binder.Bind<ops::SoftCap>(cap));
  }
  return head;
}

Status LogitsHead::operator()(device::Stream& stream, const DeviceBatch& batch,
                              const Activations& a, const ops::Tensor& logits) const {
  if (batch.rows() == 0) return OkStatus();
  if (norm_.bound()) {
    SLUICE_RETURN_IF_ERROR(gather_(stream, {a.hidden, batch.logits_rows, a.last}));
    SLUICE_RETURN_IF_ERROR(norm_(stream, a));
  } else {
    SLUICE_RETURN_IF_ERROR(gather_(stream, {a.normed, batch.logits_rows, a.last_normed}));
  }
  SLUICE_RETURN_IF_ERROR(output_(stream, a.last_normed, {}, logits));
  if (!soft_cap_.bound()) return OkStatus();
  return soft_cap_(stream, {logits});
}

}  // namespace sluice::model::layers
