#include "model/layers/expert_mlp.h"

#include "base/str_cat.h"
#include "model/layers/decoder_params.h"
#include "model/layers/mlp.h"

namespace sluice::model::layers {

Result<ExpertMlp> ExpertMlp::Make(const Binder& binder, int layer) {
  const files::ModelConfig& config = binder.config;
  const files::ExpertsConfig& experts = config.experts;
  const DType activation = binder.options.activation;
  ExpertMlp mlp;
  const std::string prefix = StrCat("layers.", layer, ".experts.");
  mlp.router_ = FusedLinear::Make(binder, prefix + "router");
  mlp.gate_up_ = binder.Get(prefix + "gate_up");
  mlp.down_ = binder.Get(prefix + "down");
  if (experts.bias) mlp.score_bias_ = binder.Get(prefix + "score_bias")->tensor;
  const bool sigmoid = experts.score == files::RouterScore::kSigmoid;
  SLUICE_ASSIGN_OR_RETURN(
      mlp.route_, binder.Bind<ops::RouteExperts>({.scoring = sigmoid ? ops::RouterScoring::kSigmoid
                                                                     : ops::RouterScoring::kSoftmax,
                                                  .experts = experts.count,
                                                  .top_k = experts.per_token,
                                                  .groups = experts.groups,
                                                  .groups_kept = experts.groups_kept,
                                                  .bias = experts.bias,
                                                  .renormalize = experts.renormalize,
                                                  .scale = experts.scale}));
  SLUICE_ASSIGN_OR_RETURN(mlp.group_, binder.Bind<ops::GroupExperts>(
                                          {.experts = experts.count, .top_k = experts.per_token}));
  SLUICE_ASSIGN_OR_RETURN(
      mlp.activation_,
      binder.Bind<ops::GatedActivation>(
          {.kind = ActivationOf(config), .activation = activation, .width = experts.width}));
  const bool adds = BlocksAdd(config);
  SLUICE_ASSIGN_OR_RETURN(
      mlp.combine_,
      binder.Bind<ops::CombineExperts>({.out = adds ? ops::ResidualDType(activation) : activation,
                                        .top_k = experts.per_token,
                                        .width = config.hidden_size,
                                        .residual = adds}));
  return mlp;
}

Status ExpertMlp::Multiply(device::Stream& stream, const weights::Parameter& weight,
                           const Activations& a, const ops::Tensor& x, const ops::Tensor& tokens,
                           const ops::Tensor& out) {
  for (const weights::LinearPart& part : weight.parts) {
    ops::GroupedLinear::Args args;
    args.x = x;
    args.tokens = tokens;
    args.starts = a.expert_starts;
    args.weight = &part.weight;
    args.out = out.Columns(part.row_begin, part.grouped.desc().each.n);
    SLUICE_RETURN_IF_ERROR(part.grouped(stream, args));
  }
  return OkStatus();
}

Status ExpertMlp::operator()(ForwardContext& context, const DeviceBatch&, const Activations& a,
                             const ops::Tensor& residual, const ops::Tensor& out) const {
  device::Stream& stream = *context.stream;
  SLUICE_RETURN_IF_ERROR(router_(stream, a.normed, {}, a.router_logits));
  SLUICE_RETURN_IF_ERROR(route_(stream, {.logits = a.router_logits,
                                         .bias = score_bias_,
                                         .ids = a.expert_ids,
                                         .weights = a.expert_weights}));
  SLUICE_RETURN_IF_ERROR(group_(stream, {.ids = a.expert_ids,
                                         .starts = a.expert_starts,
                                         .tokens = a.expert_tokens,
                                         .places = a.expert_places}));
  SLUICE_RETURN_IF_ERROR(
      Multiply(stream, *gate_up_, a, a.normed, a.expert_tokens, a.expert_gate_up));
  SLUICE_RETURN_IF_ERROR(activation_(stream, {a.expert_gate_up, a.expert_gated}));
  SLUICE_RETURN_IF_ERROR(Multiply(stream, *down_, a, a.expert_gated, {}, a.expert_out));
  return combine_(stream, {.y = a.expert_out,
                           .weights = a.expert_weights,
                           .places = a.expert_places,
                           .residual = residual,
                           .out = out});
}

}  // namespace sluice::model::layers
