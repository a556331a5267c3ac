#include "model/layers/token_embedding.h"

namespace sluice::model::layers {

Result<TokenEmbedding::Lookup> TokenEmbedding::MakeLookup(const Binder& binder,
                                                          const ops::Tensor& table, int64_t first,
                                                          bool add) {
  Lookup lookup;
  lookup.table = table.Rows(first, table.dims[0] - first);
  ops::Embedding::Desc desc;
  desc.table = table.dtype;
  desc.activation = ops::ResidualDType(binder.options.activation);
  desc.vocab = lookup.table.dims[0];
  desc.hidden = binder.config.hidden_size;
  // Where all that is added to the residual stream has the same factor, the stream is kept divided
  // by it: norms, which alone read it, give the same.
  desc.scale = add ? 1.0f : binder.config.embedding_scale / binder.config.residual_scale;
  desc.add = add;
  SLUICE_ASSIGN_OR_RETURN(lookup.embedding, binder.Bind<ops::Embedding>(desc));
  return lookup;
}

Result<TokenEmbedding> TokenEmbedding::Make(const Binder& binder, const ops::Tensor& table) {
  const files::ModelConfig& config = binder.config;
  TokenEmbedding layer;
  SLUICE_ASSIGN_OR_RETURN(layer.tokens_, MakeLookup(binder, table, 0, false));
  if (config.position_rows > 0) {
    SLUICE_ASSIGN_OR_RETURN(
        layer.positions_,
        MakeLookup(binder, binder.Get("position_embedding")->tensor, config.first_position, true));
  }
  if (config.token_types > 0) {
    SLUICE_ASSIGN_OR_RETURN(layer.types_,
                            MakeLookup(binder, binder.Get("type_embedding")->tensor, 0, true));
  }
  return layer;
}

Status TokenEmbedding::operator()(device::Stream& stream, const DeviceBatch& batch,
                                  const ops::Tensor& out) const {
  const auto add = [&](const Lookup& lookup, const ops::Tensor& ids) -> Status {
    if (!lookup.embedding.bound()) return OkStatus();
    return lookup.embedding(stream, {.ids = ids, .table = lookup.table, .out = out});
  };
  SLUICE_RETURN_IF_ERROR(add(tokens_, batch.token_ids));
  SLUICE_RETURN_IF_ERROR(add(positions_, batch.positions));
  return add(types_, batch.token_types);
}

Result<LogitsHead> LogitsHead::Make(const Binder& binder, const std::string& final_norm) {
  return Make(binder, final_norm, /*of_hidden=*/!final_norm.empty(), binder);
}

Result<LogitsHead> LogitsHead::Make(const Binder& of_norm, const std::string& final_norm,
                                    const Binder& of_output) {
  return Make(of_norm, final_norm, /*of_hidden=*/true, of_output);
}

Result<LogitsHead> LogitsHead::Make(const Binder& of_norm, const std::string& final_norm,
                                    bool of_hidden, const Binder& of_output) {
  const Binder& binder = of_output;
  LogitsHead head;
  ops::GatherRows::Desc gather;
  gather.activation =
      of_hidden ? ops::ResidualDType(binder.options.activation) : binder.options.activation;
  gather.width = binder.config.hidden_size;
  SLUICE_ASSIGN_OR_RETURN(head.gather_, binder.Bind<ops::GatherRows>(gather));
  if (of_hidden) {
    SLUICE_ASSIGN_OR_RETURN(head.norm_, Norm::Make(of_norm, final_norm, Norm::Of::kLast));
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
