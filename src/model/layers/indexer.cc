#include "model/layers/indexer.h"

#include <algorithm>
#include <cmath>

#include "base/str_cat.h"
#include "model/layers/attention.h"

namespace sluice::model::layers {
namespace {

constexpr float kKeyNormEps = 1e-6f;  // of the keys, whatever the model's other norms have

}  // namespace

int ListedMax(const files::ModelConfig& config, const ModelOptions& options) {
  const files::IndexerConfig& indexer = config.latent.indexer;
  if (indexer.heads == 0) return 0;
  return static_cast<int>(std::min<int64_t>(indexer.top_k, Positions(config, options)));
}

Result<Indexer> Indexer::Make(const Binder& binder, int layer, const batch::KvGroup& group,
                              int group_index, const ops::Tensor& rope) {
  const files::IndexerConfig& sizes = binder.config.latent.indexer;
  const DType activation = binder.options.activation;
  const std::string prefix = StrCat("layers.", layer, ".indexer.");
  ops::KvDesc keys = KvDescOf(group);
  keys.k_head_dim = sizes.head_dim;
  keys.v_head_dim = 0;
  Indexer indexer;
  indexer.layer_ = layer;
  indexer.group_ = group_index;
  indexer.query_width_ = int64_t{sizes.heads} * sizes.head_dim;
  indexer.key_width_ = sizes.head_dim;
  indexer.q_ = FusedLinear::Make(binder, prefix + "q");
  indexer.k_ = FusedLinear::Make(binder, prefix + "k");
  indexer.weights_ = FusedLinear::Make(binder, prefix + "weights");
  indexer.k_norm_weight_ = binder.Get(prefix + "k_norm")->tensor;
  indexer.k_norm_bias_ = binder.Get(prefix + "k_norm_bias")->tensor;
  SLUICE_ASSIGN_OR_RETURN(indexer.k_norm_, binder.Bind<ops::Norm>({.kind = ops::NormKind::kLayer,
                                                                   .activation = activation,
                                                                   .hidden = sizes.head_dim,
                                                                   .eps = kKeyNormEps,
                                                                   .bias = true}));
  SLUICE_ASSIGN_OR_RETURN(indexer.rope_kv_,
                          binder.Bind<ops::RopeKv>({.form = ops::RopeKvForm::kPrefillQOut,
                                                    .activation = activation,
                                                    .q_heads = sizes.heads,
                                                    .kv_heads = 1,
                                                    .head_dim = sizes.head_dim,
                                                    .rotary_dims = binder.config.latent.rope_dim,
                                                    .interleaved = sizes.interleaved,
                                                    .kv = keys}));
  indexer.rope_ = rope;
  // Of products and of weights, which no order of scores depends on.
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(indexer.query_width_)));
  SLUICE_ASSIGN_OR_RETURN(indexer.scores_,
                          binder.Bind<ops::IndexScores>({.activation = activation,
                                                         .heads = sizes.heads,
                                                         .head_dim = sizes.head_dim,
                                                         .scale = scale,
                                                         .kv = keys}));
  SLUICE_ASSIGN_OR_RETURN(indexer.top_k_,
                          binder.Bind<ops::TopK>({.k = ListedMax(binder.config, binder.options)}));
  return indexer;
}

ops::PagedKv Indexer::KeysOf(const ForwardContext& context) const {
  ops::PagedKv keys = context.kv[layer_];
  keys.k = keys.v;
  keys.k_scale = keys.v_scale;
  keys.v = keys.v_scale = {};
  return keys;
}

Status Indexer::Project(device::Stream& stream, const Activations& a) const {
  SLUICE_RETURN_IF_ERROR(q_(stream, a.latent_query, {}, a.index_qkv.Columns(0, query_width_)));
  const ops::Tensor key = a.index_qkv.Columns(query_width_, key_width_);
  SLUICE_RETURN_IF_ERROR(k_(stream, a.normed, {}, key));
  SLUICE_RETURN_IF_ERROR(
      k_norm_(stream, {.x = key, .weight = k_norm_weight_, .bias = k_norm_bias_, .out = key}));
  return weights_(stream, a.normed, {}, a.index_weights);
}

Status Indexer::Rotate(ForwardContext& context, const DeviceBatch& batch,
                       const Activations& a) const {
  return rope_kv_(*context.stream, {.qkv = a.index_qkv,
                                    .positions = batch.positions,
                                    .table = rope_,
                                    .slots = batch.groups[group_].slots,
                                    .q_out = a.index_q,
                                    .kv = KeysOf(context)});
}

Status Indexer::Select(ForwardContext& context, const DeviceBatch& batch,
                       const Activations& a) const {
  const int64_t tokens = batch.tokens();
  for (int64_t first = 0; first < tokens; first += a.index_scores.dims[0]) {
    const int64_t rows = std::min(a.index_scores.dims[0], tokens - first);
    const ops::Tensor scores = a.index_scores.Rows(0, rows);
    const ops::Tensor lengths = a.index_lengths.Rows(0, rows);
    SLUICE_RETURN_IF_ERROR(
        scores_(*context.stream, {.q = a.index_q.Rows(first, rows),
                                  .weights = a.index_weights.Rows(first, rows),
                                  .first_row = first,
                                  .query_start = batch.query_start,
                                  .context = batch.context,
                                  .block_table = batch.groups[group_].block_table,
                                  .kv = KeysOf(context),
                                  .scores = scores,
                                  .lengths = lengths}));
    SLUICE_RETURN_IF_ERROR(top_k_(
        *context.stream,
        {.scores = scores, .lengths = lengths, .positions = a.index_positions.Rows(first, rows)}));
  }
  return OkStatus();
}

}  // namespace sluice::model::layers
