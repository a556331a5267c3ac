#include "model/layers/expert_mlp.h"

#include <algorithm>

#include "base/str_cat.h"
#include "model/layers/decoder_params.h"
#include "model/layers/mlp.h"

namespace sluice::model::layers {

namespace {

ops::RouterScoring ScoringOf(files::RouterScore score) {
  switch (score) {
    case files::RouterScore::kSoftmax:
      return ops::RouterScoring::kSoftmax;
    case files::RouterScore::kSigmoid:
      return ops::RouterScoring::kSigmoid;
    case files::RouterScore::kSoftmaxBiased:
      return ops::RouterScoring::kSoftmaxBiased;
  }
  return ops::RouterScoring::kSoftmax;
}

int LayersWithExpertsBefore(const files::ModelConfig& config, int layer) {
  return static_cast<int>(
      std::count_if(config.layers.begin(), config.layers.begin() + layer,
                    [](const files::LayerConfig& other) { return other.experts; }));
}

}  // namespace

Result<ExpertMlp> ExpertMlp::Make(const Binder& binder, int layer) {
  const files::ModelConfig& config = binder.config;
  const files::ExpertsConfig& experts = config.experts;
  const DType activation = binder.options.activation;
  ExpertMlp mlp;
  const std::string prefix = StrCat("layers.", layer, ".experts.");
  if (layer < config.num_layers) mlp.counts_row_ = LayersWithExpertsBefore(config, layer);
  mlp.router_ = FusedLinear::Make(binder, prefix + "router");
  const bool mapped = binder.options.expert_slots > 0 && mlp.counts_row_ >= 0;
  const int slots = mapped ? binder.options.expert_slots : experts.count;
  mlp.first_ = MatricesOf(binder, prefix + (config.plain_mlp ? "up" : "gate_up"), slots);
  mlp.down_ = MatricesOf(binder, prefix + "down", slots);
  if (experts.bias) mlp.score_bias_ = binder.Get(prefix + "score_bias")->tensor;
  if (experts.scales) mlp.scales_ = binder.Get(prefix + "scales")->tensor;
  if (experts.beside_dense) {
    SLUICE_ASSIGN_OR_RETURN(mlp.router_norm_,
                            Norm::Make(binder, prefix + "router_norm", Norm::Of::kResidual));
    SLUICE_ASSIGN_OR_RETURN(mlp.norm_, Norm::Make(binder, prefix + "norm", Norm::Of::kResidual));
  }
  SLUICE_ASSIGN_OR_RETURN(mlp.route_,
                          binder.Bind<ops::RouteExperts>({.scoring = ScoringOf(experts.score),
                                                          .experts = experts.count,
                                                          .top_k = experts.per_token,
                                                          .groups = experts.groups,
                                                          .groups_kept = experts.groups_kept,
                                                          .bias = experts.bias,
                                                          .renormalize = experts.renormalize,
                                                          .expert_scales = experts.scales,
                                                          .scale = experts.scale}));
  if (binder.options.fake_balance_experts) {
    SLUICE_ASSIGN_OR_RETURN(mlp.fake_balance_,
                            binder.Bind<ops::FakeBalanceExperts>(
                                {.experts = experts.count, .top_k = experts.per_token}));
  }
  if (mapped) {
    SLUICE_ASSIGN_OR_RETURN(
        mlp.map_, binder.Bind<ops::MapExperts>(
                      {.experts = experts.count, .slots = slots, .top_k = experts.per_token}));
  }
  SLUICE_ASSIGN_OR_RETURN(
      mlp.group_, binder.Bind<ops::GroupExperts>({.experts = slots, .top_k = experts.per_token}));
  if (experts.weighs_inputs) {
    SLUICE_ASSIGN_OR_RETURN(
        mlp.scale_,
        binder.Bind<ops::ScaleExperts>(
            {.activation = activation,
             .top_k = experts.per_token,
             .width = config.plain_mlp ? int64_t{experts.width} : 2 * int64_t{experts.width}}));
  }
  if (config.plain_mlp) {
    SLUICE_ASSIGN_OR_RETURN(
        mlp.plain_,
        binder.Bind<ops::PlainActivation>(
            {.kind = ActivationOf(config), .activation = activation, .width = experts.width}));
  } else {
    SLUICE_ASSIGN_OR_RETURN(
        mlp.gated_,
        binder.Bind<ops::GatedActivation>(
            {.kind = ActivationOf(config), .activation = activation, .width = experts.width}));
  }
  const bool adds = BlocksAdd(config);
  SLUICE_ASSIGN_OR_RETURN(
      mlp.combine_,
      binder.Bind<ops::CombineExperts>({.out = adds ? ops::ResidualDType(activation) : activation,
                                        .top_k = experts.per_token,
                                        .width = config.hidden_size,
                                        .residual = adds}));
  return mlp;
}

ExpertMlp::Matrices ExpertMlp::MatricesOf(const Binder& binder, const std::string& name,
                                          int experts) {
  Matrices matrices = {.weight = binder.Get(name), .bias = {}};
  if (!binder.config.experts.product_biases) return matrices;
  ops::Tensor bias = binder.Get(name + "_bias")->tensor;
  bias.rank = 2;
  bias.dims[1] = bias.dims[0] / experts;
  bias.dims[0] = experts;
  bias.strides[0] = bias.dims[1];
  bias.strides[1] = 1;
  matrices.bias = bias;
  return matrices;
}

Status ExpertMlp::Multiply(device::Stream& stream, const Matrices& matrices, const Activations& a,
                           const ops::Tensor& x, const ops::Tensor& tokens,
                           const ops::Tensor& out) const {
  for (const weights::LinearPart& part : matrices.weight->parts) {
    ops::GroupedLinear::Args args;
    args.x = x;
    args.tokens = tokens;
    args.starts = StartsOf(a);
    args.weight = &part.weight;
    const int64_t rows = part.grouped.desc().each.n;
    if (!matrices.bias.empty()) args.bias = matrices.bias.Columns(part.row_begin, rows);
    args.out = out.Columns(part.row_begin, rows);
    SLUICE_RETURN_IF_ERROR(part.grouped(stream, args));
  }
  return OkStatus();
}

Status ExpertMlp::Group(ForwardContext& context, const DeviceBatch& batch,
                        const Activations& a) const {
  ops::GroupExperts::Args args{.ids = a.expert_ids,
                               .starts = StartsOf(a),
                               .tokens = a.expert_tokens,
                               .places = a.expert_places};
  args.counts = RowOf(map_.bound() ? context.expert_slot_counts : context.expert_counts);
  if (!args.counts.empty()) args.counted = batch.query_start.Rows(batch.sequences(), 1);
  return group_(*context.stream, args);
}

Status ExpertMlp::Map(ForwardContext& context, const DeviceBatch& batch,
                      const Activations& a) const {
  ops::MapExperts::Args args{.token_ids = batch.token_ids,
                             .positions = batch.positions,
                             .map = RowOf(context.expert_maps),
                             .ids = a.expert_ids,
                             .counts = RowOf(context.expert_counts)};
  if (!args.counts.empty()) args.counted = batch.query_start.Rows(batch.sequences(), 1);
  return map_(*context.stream, args);
}

ops::Tensor ExpertMlp::RowOf(const ops::Tensor& all) const {
  if (all.empty() || counts_row_ < 0) return {};
  ops::Tensor row = all.Rows(counts_row_, 1);
  row.rank = 1;
  row.dims[0] = row.dims[1];
  row.strides[0] = 1;
  return row;
}

ops::Tensor ExpertMlp::StartsOf(const Activations& a) const {
  return a.expert_starts.Rows(0, group_.desc().experts + 1);
}

Status ExpertMlp::operator()(ForwardContext& context, const DeviceBatch& batch,
                             const Activations& a, const ops::Tensor& residual,
                             const ops::Tensor& out) const {
  device::Stream& stream = *context.stream;
  if (router_norm_.bound()) SLUICE_RETURN_IF_ERROR(router_norm_(stream, a));
  SLUICE_RETURN_IF_ERROR(router_(stream, a.normed, {}, a.router_logits));
  SLUICE_RETURN_IF_ERROR(route_(stream, {.logits = a.router_logits,
                                         .bias = score_bias_,
                                         .scales = scales_,
                                         .ids = a.expert_ids,
                                         .weights = a.expert_weights}));
  if (fake_balance_) {
    SLUICE_RETURN_IF_ERROR(
        (*fake_balance_)(stream, {.ids = a.expert_ids, .weights = a.expert_weights}));
  }
  if (norm_.bound()) SLUICE_RETURN_IF_ERROR(norm_(stream, a));
  if (map_.bound()) SLUICE_RETURN_IF_ERROR(Map(context, batch, a));
  SLUICE_RETURN_IF_ERROR(Group(context, batch, a));
  const ops::Tensor& inner = plain_.bound() ? a.expert_gated : a.expert_gate_up;
  SLUICE_RETURN_IF_ERROR(Multiply(stream, first_, a, a.normed, a.expert_tokens, inner));
  if (scale_.bound()) {
    SLUICE_RETURN_IF_ERROR(
        scale_(stream, {.x = inner, .weights = a.expert_weights, .places = a.expert_places}));
  }
  SLUICE_RETURN_IF_ERROR(plain_.bound() ? plain_(stream, {inner})
                                        : gated_(stream, {inner, a.expert_gated}));
  SLUICE_RETURN_IF_ERROR(Multiply(stream, down_, a, a.expert_gated, {}, a.expert_out));
  return combine_(stream, {.y = a.expert_out,
                           .weights = a.expert_weights,
                           .places = a.expert_places,
                           .residual = residual,
                           .out = out});
}

}  // namespace sluice::model::layers
