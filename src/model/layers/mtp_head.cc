#include "model/layers/mtp_head.h"

#include "base/str_cat.h"

namespace sluice::model::layers {

Result<ops::Bound<ops::Norm>> MtpHead::BindNorm(const Binder& binder, bool of_residual) {
  ops::Norm::Desc desc;
  desc.activation = binder.options.activation;
  desc.hidden = binder.config.hidden_size;
  desc.eps = binder.config.norm_eps;
  desc.f32_residual = of_residual && ops::ResidualDType(desc.activation) != desc.activation;
  return binder.Bind<ops::Norm>(desc);
}

Result<std::unique_ptr<MtpHead>> MtpHead::Make(const Binder& binder, int layer,
                                               const batch::KvGroup& group, int group_index,
                                               const ops::Tensor& rope,
                                               const TokenEmbedding& embedding) {
  const auto name = [&](const char* what) { return StrCat("layers.", layer, ".", what); };
  // The layer is one more of the model's, and the only one of a pass that reads its tables.
  files::ModelConfig config = binder.config;
  config.layers.resize(static_cast<size_t>(layer) + 1);
  const Binder own{config, binder.options, binder.parameters, binder.table};
  batch::KvGroup alone = group;
  alone.layers = {layer};
  auto head = std::make_unique<MtpHead>();
  head->embedding_ = embedding;
  SLUICE_ASSIGN_OR_RETURN(head->residual_norm_, BindNorm(own, true));
  SLUICE_ASSIGN_OR_RETURN(head->own_norm_, BindNorm(own, false));
  head->hidden_weight_ = own.Get(name("hidden_norm"))->tensor;
  head->token_weight_ = own.Get(name("token_norm"))->tensor;
  head->final_weight_ = own.Get(name("final_norm"))->tensor;
  head->join_ = FusedLinear::Make(own, name("join"));
  SLUICE_ASSIGN_OR_RETURN(head->input_norm_,
                          Norm::Make(own, name("input_norm"), Norm::Of::kResidual));
  SLUICE_ASSIGN_OR_RETURN(head->attention_,
                          Attention::Make(own, layer, alone, group_index, {.rope = rope}));
  SLUICE_ASSIGN_OR_RETURN(head->mlp_norm_, Norm::Make(own, name("mlp_norm"), Norm::Of::kResidual));
  SLUICE_ASSIGN_OR_RETURN(head->mlp_, Mlp::Make(own, name("mlp."), config.intermediate_size));
  SLUICE_ASSIGN_OR_RETURN(head->logits_, LogitsHead::Make(own, name("final_norm")));
  return head;
}

Status MtpHead::operator()(ForwardContext& context, const DeviceBatch& batch,
                           const ops::Tensor& hidden, Activations* a,
                           const DraftOutputs& outputs) const {
  device::Stream& stream = *context.stream;
  const int64_t width = hidden.dims[1];
  if (!outputs.hidden.empty()) a->last_normed = outputs.hidden;
  SLUICE_RETURN_IF_ERROR(embedding_(stream, batch, a->hidden));
  const auto norm = [&](const ops::Tensor& x, const ops::Tensor& weight, const ops::Tensor& out) {
    ops::Norm::Args args;
    args.x = x;
    args.weight = weight;
    args.out = out;
    const bool residual = x.dtype == a->hidden.dtype;
    return residual ? residual_norm_(stream, args) : own_norm_(stream, args);
  };
  SLUICE_RETURN_IF_ERROR(norm(hidden, hidden_weight_, a->joined.Columns(0, width)));
  SLUICE_RETURN_IF_ERROR(norm(a->hidden, token_weight_, a->joined.Columns(width, width)));
  SLUICE_RETURN_IF_ERROR(join_(stream, a->joined, {}, a->hidden));
  SLUICE_RETURN_IF_ERROR(input_norm_(stream, *a));
  SLUICE_RETURN_IF_ERROR(attention_(context, batch, *a, a->hidden, a->hidden));
  SLUICE_RETURN_IF_ERROR(mlp_norm_(stream, *a));
  SLUICE_RETURN_IF_ERROR(mlp_(context, batch, *a, a->hidden, a->hidden));
  if (!outputs.every.empty()) SLUICE_RETURN_IF_ERROR(norm(a->hidden, final_weight_, outputs.every));
  return logits_(stream, batch, *a, outputs.logits);
}

}  // namespace sluice::model::layers
