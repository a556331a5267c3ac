#include "model/layers/latent_attention.h"

#include "base/str_cat.h"
#include "model/layers/attention.h"

namespace sluice::model::layers {
namespace {

constexpr float kLatentNormEps = 1e-6f;  // of the latents, whatever the model's other norms have

// The rows of latents alone. An indexer keeps its keys in the place that other layers have for V.
ops::KvDesc LatentsOf(const batch::KvGroup& group) {
  ops::KvDesc kv = KvDescOf(group);
  kv.v_head_dim = 0;
  return kv;
}
ops::PagedKv LatentsOf(ops::PagedKv kv) {
  kv.v = kv.v_scale = {};
  return kv;
}

}  // namespace

ops::LatentAttention::Desc LatentAttentionDesc(const files::ModelConfig& config,
                                               const ModelOptions& options,
                                               const batch::KvGroup& group) {
  return {.activation = options.activation,
          .heads = config.num_heads,
          .key_width = group.k_head_dim,
          .value_width = config.latent.kv_rank,
          .scale = config.attention_scale,
          .listed_max = ListedMax(config, options),
          .kv = LatentsOf(group),
          .paths = options.draft_trees};
}

Result<LatentAttention> LatentAttention::Make(const Binder& binder, int layer,
                                              const batch::KvGroup& group, int group_index,
                                              const ops::Tensor& rope) {
  const files::ModelConfig& config = binder.config;
  const DType activation = binder.options.activation;
  const std::string prefix = StrCat("layers.", layer, ".attention.");
  LatentAttention attention;
  attention.layer_ = layer;
  attention.group_ = group_index;
  attention.heads_ = config.num_heads;
  attention.sizes_ = config.latent;
  if (config.latent.q_rank > 0) {
    attention.q_a_ = FusedLinear::Make(binder, prefix + "q_a");
    attention.q_a_weight_ = binder.Get(prefix + "q_a_norm")->tensor;
    SLUICE_ASSIGN_OR_RETURN(
        attention.q_a_norm_,
        binder.Bind<ops::Norm>(
            {.activation = activation, .hidden = config.latent.q_rank, .eps = kLatentNormEps}));
  }
  attention.q_nope_ = FusedLinear::Make(binder, prefix + "q_nope");
  attention.kv_ = FusedLinear::Make(binder, prefix + "kv");
  attention.output_ = FusedLinear::Make(binder, prefix + "output");
  attention.kv_weight_ = binder.Get(prefix + "kv_norm")->tensor;
  SLUICE_ASSIGN_OR_RETURN(
      attention.kv_norm_,
      binder.Bind<ops::Norm>(
          {.activation = activation, .hidden = config.latent.kv_rank, .eps = kLatentNormEps}));
  attention.q_rope_ = binder.Get(prefix + "q_rope");
  attention.absorb_ = binder.Get(prefix + "absorb");
  attention.values_ = binder.Get(prefix + "values");
  SLUICE_ASSIGN_OR_RETURN(attention.rope_kv_,
                          binder.Bind<ops::RopeKv>({.form = ops::RopeKvForm::kPrefillQOut,
                                                    .activation = activation,
                                                    .q_heads = config.num_heads,
                                                    .kv_heads = group.kv_heads,
                                                    .head_dim = group.k_head_dim,
                                                    .rotary_dims = config.latent.rope_dim,
                                                    .interleaved = config.rope.interleaved,
                                                    .kv = LatentsOf(group)}));
  attention.rope_ = rope;
  const bool reuses = config.layers[static_cast<size_t>(layer)].reuses_positions;
  if (config.latent.indexer.heads > 0 && !reuses) {
    SLUICE_ASSIGN_OR_RETURN(attention.indexer_,
                            Indexer::Make(binder, layer, group, group_index, rope));
  }
  SLUICE_ASSIGN_OR_RETURN(
      attention.attention_,
      binder.Bind<ops::LatentAttention>(LatentAttentionDesc(config, binder.options, group)));
  return attention;
}

Status LatentAttention::Multiply(device::Stream& stream, const weights::Parameter& heads,
                                 const ops::Tensor& x, const ops::Tensor& out) {
  CHECK(heads.parts.size() == 1, heads.spec.name, " has several formats");
  const weights::LinearPart& part = heads.parts.front();
  return part.grouped(stream, {.x = x, .weight = &part.weight, .out = out});
}

// Rows of a.qkv: of each head a rotated part and a latent, then those that the token keeps.
Status LatentAttention::Project(device::Stream& stream, const Activations& a) const {
  const int64_t rope = sizes_.rope_dim, key = sizes_.key_width(), last = (heads_ - 1) * key;
  ops::Tensor x = a.normed;
  if (q_a_norm_.bound()) {
    x = a.latent_query;
    SLUICE_RETURN_IF_ERROR(q_a_(stream, a.normed, {}, x));
    SLUICE_RETURN_IF_ERROR(q_a_norm_(stream, {.x = x, .weight = q_a_weight_, .out = x}));
  }
  if (indexer_.bound()) SLUICE_RETURN_IF_ERROR(indexer_.Project(stream, a));
  SLUICE_RETURN_IF_ERROR(q_nope_(stream, x, {}, a.latent_nope));
  SLUICE_RETURN_IF_ERROR(Multiply(stream, *q_rope_, x, a.qkv.Columns(0, last + rope)));
  SLUICE_RETURN_IF_ERROR(
      Multiply(stream, *absorb_, a.latent_nope, a.qkv.Columns(rope, last + sizes_.kv_rank)));
  SLUICE_RETURN_IF_ERROR(kv_(stream, a.normed, {}, a.qkv.Columns(heads_ * key, key)));
  const ops::Tensor latent = a.qkv.Columns(heads_ * key + rope, sizes_.kv_rank);
  return kv_norm_(stream, {.x = latent, .weight = kv_weight_, .out = latent});
}

Status LatentAttention::operator()(ForwardContext& context, const DeviceBatch& batch,
                                   const Activations& a, const ops::Tensor& residual,
                                   const ops::Tensor& out) const {
  SLUICE_RETURN_IF_ERROR(Project(*context.stream, a));
  SLUICE_RETURN_IF_ERROR(Rotate(context, batch, a));
  SLUICE_RETURN_IF_ERROR(Attend(context, batch, a));
  SLUICE_RETURN_IF_ERROR(Multiply(*context.stream, *values_, a.latent_out, a.attended));
  return output_(*context.stream, a.attended, residual, out);
}

Status LatentAttention::Rotate(ForwardContext& context, const DeviceBatch& batch,
                               const Activations& a) const {
  SLUICE_RETURN_IF_ERROR(rope_kv_(*context.stream, {.qkv = a.qkv,
                                                    .positions = batch.positions,
                                                    .table = rope_,
                                                    .slots = batch.groups[group_].slots,
                                                    .q_out = a.q,
                                                    .kv = LatentsOf(context.kv[layer_])}));
  if (indexer_.bound()) SLUICE_RETURN_IF_ERROR(indexer_.Rotate(context, batch, a));
  if (context.observer == nullptr) return OkStatus();
  return context.observer->LayerWritten(layer_, group_);
}

Status LatentAttention::Attend(ForwardContext& context, const DeviceBatch& batch,
                               const Activations& a) const {
  if (indexer_.bound()) SLUICE_RETURN_IF_ERROR(indexer_.Select(context, batch, a));
  return attention_(*context.stream, {.q = a.q,
                                      .query_start = batch.query_start,
                                      .context = batch.context,
                                      .block_table = batch.groups[group_].block_table,
                                      .kv = LatentsOf(context.kv[layer_]),
                                      .listed = a.index_positions,
                                      .paths = batch.paths,
                                      .out = a.latent_out});
}

}  // namespace sluice::model::layers
