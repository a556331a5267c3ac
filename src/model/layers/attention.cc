#include "model/layers/attention.h"

#include <algorithm>

#include "base/check.h"
#include "base/str_cat.h"
#include "files/architectures.h"

namespace sluice::model::layers {
namespace {

// `own_kv`: the layer has K and V of its own.
ops::RopeKv::Desc RopeDesc(const Binder& binder, const batch::KvGroup& group, ops::RopeKvForm form,
                           int rotary_dims, bool interleaved, bool own_kv) {
  ops::RopeKv::Desc desc;
  desc.form = form;
  desc.activation = binder.options.activation;
  desc.q_heads = binder.config.num_heads;
  desc.kv_heads = own_kv ? group.kv_heads : 0;
  desc.head_dim = group.k_head_dim;
  desc.rotary_dims = rotary_dims;
  desc.interleaved = interleaved;
  desc.kv = KvDescOf(group);
  desc.kv.kv_heads = desc.kv_heads;
  return desc;
}

}  // namespace

ops::KvDesc KvDescOf(const batch::KvGroup& group) {
  return {.dtype = group.dtype,
          .kv_heads = group.kv_heads,
          .k_head_dim = group.k_head_dim,
          .v_head_dim = group.v_head_dim,
          .kernel_block_tokens = group.kernel_block_tokens};
}

ops::Attention::Desc AttentionDesc(const files::ModelConfig& config, const ModelOptions& options,
                                   const batch::KvGroup& group, bool use_rope) {
  ops::Attention::Desc desc;
  desc.activation = options.activation;
  desc.q_heads = config.num_heads;
  desc.kv_heads = group.kv_heads;
  desc.head_dim = group.k_head_dim;
  desc.scale = config.attention_scale;
  desc.causal = !files::InfoOf(config.architecture).encoder && !options.sees_behind;
  desc.soft_cap = config.attention_soft_cap;
  desc.window = group.window;
  desc.chunked = group.window > 0 && config.chunked_window;
  desc.alibi = !config.alibi_slopes.empty();
  if (!use_rope) {
    desc.growth_tokens = config.growth_tokens;
    desc.growth_scale = config.growth_scale;
  }
  desc.sinks = config.attention_sinks;
  desc.bias_buckets = config.bias_buckets;
  desc.paths = options.draft_trees;
  desc.kv = KvDescOf(group);
  return desc;
}

Result<Attention> Attention::Make(const Binder& binder, int layer, const batch::KvGroup& group,
                                  int group_index, const AttentionTables& tables) {
  const files::ModelConfig& config = binder.config;
  const ops::Tensor& rope = tables.rope;
  const std::string prefix = StrCat("layers.", layer, ".attention.");
  Attention attention;
  const int owner = config.layers[layer].kv_of;
  const bool own = owner < 0;
  attention.layer_ = own ? layer : owner;
  attention.group_ = group_index;
  attention.kv_heads_ = own ? group.kv_heads : 0;
  attention.head_dim_ = group.k_head_dim;
  attention.q_width_ = int64_t{config.num_heads} * attention.head_dim_;
  attention.first_of_group_ = layer == group.layers.front();
  attention.qkv_ = FusedLinear::Make(binder, prefix + "qkv");
  attention.output_ = FusedLinear::Make(binder, prefix + "output");
  if (config.attention_sinks) attention.sinks_ = binder.Get(prefix + "sinks")->tensor;
  attention.slopes_ = tables.slopes;
  if (config.bias_buckets > 0) attention.bias_ = binder.Get("attention_bias")->tensor;
  const bool norms = config.qk_norm != files::QkNormKind::kNone &&
                     (config.qk_norm != files::QkNormKind::kHeadPlain || !rope.empty());
  if (norms) SLUICE_RETURN_IF_ERROR(attention.BindNorms(binder, prefix, tables.ones));
  if (own && files::InfoOf(config.architecture).v_norm) {
    attention.ones_ = tables.ones;
    attention.ones_.dims[0] = attention.head_dim_;
    SLUICE_ASSIGN_OR_RETURN(attention.v_norm_,
                            binder.Bind<ops::QkNorm>({.activation = binder.options.activation,
                                                      .q_heads = attention.kv_heads_,
                                                      .head_dim = attention.head_dim_,
                                                      .eps = config.norm_eps}));
  }
  const bool local = config.layers[layer].local_rope;
  const int rotary_dims = rope.empty() ? 0 : static_cast<int>(rope.dims[1]);
  const bool interleaved = local ? config.local_rope.interleaved : config.rope.interleaved;
  const bool twice = config.qk_norm_behind_rope && !rope.empty();
  if (twice) {
    SLUICE_ASSIGN_OR_RETURN(attention.rotate_, binder.Bind<ops::RopeKv>(RopeDesc(
                                                   binder, group, ops::RopeKvForm::kPrefillQkvOut,
                                                   rotary_dims, interleaved, own)));
  }
  SLUICE_ASSIGN_OR_RETURN(attention.rope_kv_, binder.Bind<ops::RopeKv>(RopeDesc(
                                                  binder, group, ops::RopeKvForm::kPrefillQOut,
                                                  twice ? 0 : rotary_dims, interleaved, own)));
  if (attention.qk_norm_.bound() && !attention.v_norm_.bound() && !twice) {
    attention.normed_rope_kv_ = binder.BindIfFast<ops::NormedRopeKv>(
        {.rope = attention.rope_kv_.desc(), .eps = config.norm_eps});
  }
  attention.rope_ = rope;
  SLUICE_ASSIGN_OR_RETURN(attention.attention_, binder.Bind<ops::Attention>(AttentionDesc(
                                                    config, binder.options, group, !rope.empty())));
  attention.narrow_ =
      std::any_of(config.layers.begin(), config.layers.end(), [&](const files::LayerConfig& other) {
        return config.head_dim_of(other) != group.k_head_dim ||
               config.kv_heads_of(other) != group.kv_heads || other.kv_of >= 0;
      });
  CHECK(!(attention.narrow_ && config.attention_gate), "a gate stands beside the widest heads");
  if (config.attention_gate) {
    ops::SigmoidGate::Desc desc;
    desc.activation = binder.options.activation;
    desc.width = attention.q_width_;
    SLUICE_ASSIGN_OR_RETURN(attention.gate_, binder.Bind<ops::SigmoidGate>(desc));
  }
  return attention;
}

Status Attention::BindNorms(const Binder& binder, const std::string& prefix,
                            const ops::Tensor& ones) {
  const files::ModelConfig& config = binder.config;
  const DType activation = binder.options.activation;
  const bool plain = config.qk_norm == files::QkNormKind::kHeadPlain;
  q_norm_ = plain ? ones : binder.Get(prefix + "q_norm")->tensor;
  k_norm_ = plain || kv_heads_ == 0 ? q_norm_ : binder.Get(prefix + "k_norm")->tensor;
  if (config.qk_norm != files::QkNormKind::kWidth) {
    SLUICE_ASSIGN_OR_RETURN(qk_norm_, binder.Bind<ops::QkNorm>({.activation = activation,
                                                                .q_heads = config.num_heads,
                                                                .kv_heads = kv_heads_,
                                                                .head_dim = head_dim_,
                                                                .eps = config.norm_eps}));
    return OkStatus();
  }
  const auto bind = [&](int heads) {
    return binder.Bind<ops::Norm>(
        {.activation = activation, .hidden = int64_t{heads} * head_dim_, .eps = config.norm_eps});
  };
  SLUICE_ASSIGN_OR_RETURN(all_q_norm_, bind(config.num_heads));
  SLUICE_ASSIGN_OR_RETURN(all_k_norm_, bind(kv_heads_));
  return OkStatus();
}

Status Attention::Normalize(device::Stream& stream, const Activations& a) const {
  if (v_norm_.bound()) {
    const int64_t width = kv_heads_ * head_dim_;
    SLUICE_RETURN_IF_ERROR(v_norm_(
        stream,
        {.qkv = a.qkv.Columns(q_width_ + width, width), .q_weight = ones_, .k_weight = ones_}));
  }
  if (qk_norm_.bound()) {
    return qk_norm_(stream, {.qkv = a.qkv, .q_weight = q_norm_, .k_weight = k_norm_});
  }
  if (!all_q_norm_.bound()) return OkStatus();
  const ops::Tensor q = a.qkv.Columns(0, q_norm_.dims[0]);
  const ops::Tensor k = a.qkv.Columns(q.dims[1], k_norm_.dims[0]);
  SLUICE_RETURN_IF_ERROR(all_q_norm_(stream, {.x = q, .weight = q_norm_, .out = q}));
  return all_k_norm_(stream, {.x = k, .weight = k_norm_, .out = k});
}

Activations Attention::Narrowed(const Activations& a) const {
  const auto narrowed = [](ops::Tensor tensor, int64_t width) {
    tensor.dims[1] = tensor.strides[0] = width;
    return tensor;
  };
  Activations own = a;
  own.qkv = own.qkv_gate = narrowed(a.qkv, q_width_ + 2 * kv_heads_ * head_dim_);
  own.q = narrowed(a.q, q_width_);
  own.attended = narrowed(a.attended, q_width_);
  return own;
}

Status Attention::operator()(ForwardContext& context, const DeviceBatch& batch,
                             const Activations& widest, const ops::Tensor& residual,
                             const ops::Tensor& out) const {
  return narrow_ ? Run(context, batch, Narrowed(widest), residual, out)
                 : Run(context, batch, widest, residual, out);
}

Status Attention::WriteKv(ForwardContext& context, const DeviceBatch& batch,
                          const Activations& a) const {
  SLUICE_RETURN_IF_ERROR(qkv_(*context.stream, a.normed_rows(), {}, a.qkv_gate));
  return KeepKv(context, batch, a);
}

Status Attention::KeepKv(ForwardContext& context, const DeviceBatch& batch,
                         const Activations& a) const {
  // Where norms stand behind the rotation, K goes to the cache once more, normalized.
  if (rotate_.bound())
    SLUICE_RETURN_IF_ERROR(rotate_(*context.stream, RopeArgs(context, batch, a)));
  if (!normed_rope_kv_.bound()) SLUICE_RETURN_IF_ERROR(Normalize(*context.stream, a));
  return Rotate(context, batch, a);
}

Status Attention::Run(ForwardContext& context, const DeviceBatch& batch, const Activations& a,
                      const ops::Tensor& residual, const ops::Tensor& out) const {
  SLUICE_RETURN_IF_ERROR(Mix(context, batch, a, false));
  return Project(context, a, residual, out);
}

Status Attention::Mix(ForwardContext& context, const DeviceBatch& batch, const Activations& a,
                      bool projected) const {
  SLUICE_RETURN_IF_ERROR(projected ? KeepKv(context, batch, a) : WriteKv(context, batch, a));
  SLUICE_RETURN_IF_ERROR(Attend(context, batch, a));
  if (!gate_.bound()) return OkStatus();
  return gate_(*context.stream, {.x = a.attended, .gate = a.attention_gate});
}

ops::RopeKv::Args Attention::RopeArgs(ForwardContext& context, const DeviceBatch& batch,
                                      const Activations& a) const {
  ops::RopeKv::Args args;
  args.qkv = a.qkv;
  args.positions = batch.positions;
  args.table = rope_;
  args.slots = batch.groups[group_].slots;
  if (kv_heads_ > 0) args.kv = context.kv[layer_];
  return args;
}

Status Attention::Rotate(ForwardContext& context, const DeviceBatch& batch,
                         const Activations& a) const {
  ops::RopeKv::Args args = RopeArgs(context, batch, a);
  if (rotate_.bound()) args.table = {};
  args.q_out = a.q;
  if (normed_rope_kv_.bound()) {
    SLUICE_RETURN_IF_ERROR(normed_rope_kv_(*context.stream, {.qkv = args.qkv,
                                                             .positions = args.positions,
                                                             .table = args.table,
                                                             .slots = args.slots,
                                                             .q_out = args.q_out,
                                                             .kv = args.kv,
                                                             .q_weight = q_norm_,
                                                             .k_weight = k_norm_}));
  } else {
    SLUICE_RETURN_IF_ERROR(rope_kv_(*context.stream, args));
  }
  if (context.observer == nullptr || kv_heads_ == 0) return OkStatus();
  return context.observer->LayerWritten(layer_, group_);
}

Status Attention::Attend(ForwardContext& context, const DeviceBatch& batch,
                         const Activations& a) const {
  ops::Attention::Args args;
  args.q = a.q;
  args.query_start = batch.query_start;
  args.context = batch.context;
  args.block_table = batch.groups[group_].block_table;
  args.kv = context.kv[layer_];
  args.sinks = sinks_;
  args.slopes = slopes_;
  args.bias = bias_;
  args.paths = batch.paths;
  args.out = a.attended;
  if (!context.attention_plans.empty()) {
    args.plan = context.attention_plans[group_];
    args.plan.dims[0] = ops::AttentionPlanNumbers(batch.sequences());
    args.planned = !first_of_group_;
  }
  return attention_(*context.stream, args);
}

}  // namespace sluice::model::layers
