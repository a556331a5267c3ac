#include "model/layers/expert_mlp.h"

#include <algorithm>

#include "base/str_cat.h"
#include "model/layers/decoder_params.h"

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

ops::RouteExperts::Desc RouteOf(const files::ExpertsConfig& experts) {
  return {.scoring = ScoringOf(experts.score),
          .experts = experts.count,
          .top_k = experts.per_token,
          .groups = experts.groups,
          .groups_kept = experts.groups_kept,
          .bias = experts.bias,
          .renormalize = experts.renormalize,
          .expert_scales = experts.scales,
          .scale = experts.scale};
}

ops::Tensor RowOfCounts(const ops::Tensor& all, int row) {
  if (all.empty() || row < 0) return {};
  ops::Tensor numbers = all.Rows(row, 1);
  numbers.rank = 1;
  numbers.dims[0] = numbers.dims[1];
  numbers.strides[0] = 1;
  return numbers;
}

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
  if (experts.bias) mlp.score_bias_ = binder.Get(prefix + "score_bias")->tensor;
  if (experts.scales) mlp.scales_ = binder.Get(prefix + "scales")->tensor;
  if (experts.beside_dense) {
    SLUICE_ASSIGN_OR_RETURN(mlp.router_norm_,
                            Norm::Make(binder, prefix + "router_norm", Norm::Of::kResidual));
    SLUICE_ASSIGN_OR_RETURN(mlp.norm_, Norm::Make(binder, prefix + "norm", Norm::Of::kResidual));
  }
  SLUICE_ASSIGN_OR_RETURN(mlp.route_, binder.Bind<ops::RouteExperts>(RouteOf(experts)));
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
  if (binder.host_experts != nullptr && binder.host_experts->Has(layer)) {
    mlp.host_ = binder.host_experts;
    SLUICE_ASSIGN_OR_RETURN(mlp.products_, mlp.host_->MakeProducts(layer));
    SLUICE_ASSIGN_OR_RETURN(
        mlp.count_, binder.Bind<ops::GroupExperts>({.experts = slots, .top_k = experts.per_token}));
    return mlp;
  }
  const bool adds = BlocksAdd(config);
  const DType out = adds ? ops::ResidualDType(activation) : activation;
  SLUICE_ASSIGN_OR_RETURN(mlp.products_, ExpertProducts::Make(binder, layer, slots, out, adds));
  return mlp;
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

Status ExpertMlp::Count(ForwardContext& context, const DeviceBatch& batch,
                        const Activations& a) const {
  const ops::Tensor counts = RowOf(context.expert_counts);
  if (counts.empty()) return OkStatus();
  return count_(*context.stream, {.ids = a.expert_ids,
                                  .starts = a.expert_starts,
                                  .tokens = a.expert_tokens,
                                  .places = a.expert_places,
                                  .counts = counts,
                                  .counted = batch.query_start.Rows(batch.sequences(), 1)});
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
  if (host_ != nullptr) {
    SLUICE_RETURN_IF_ERROR(Count(context, batch, a));
    return (*host_)(stream, products_, batch, a, residual, out);
  }
  ExpertProducts::Args args{.x = a.normed,
                            .ids = a.expert_ids,
                            .weights = a.expert_weights,
                            .counts = {},
                            .counted = {},
                            .residual = residual,
                            .out = out};
  args.counts = RowOf(map_.bound() ? context.expert_slot_counts : context.expert_counts);
  if (!args.counts.empty()) args.counted = batch.query_start.Rows(batch.sequences(), 1);
  return products_(stream, args, a);
}

}  // namespace sluice::model::layers
