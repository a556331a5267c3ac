#include "model/layers/mamba.h"

#include "base/str_cat.h"

namespace sluice::model::layers {

ops::Ssd::Desc SsdDesc(const files::ModelConfig& config, const ModelOptions& options,
                       const batch::KvGroup& group) {
  ops::Ssd::Desc desc;
  desc.activation = options.activation;
  desc.k_heads = config.linear.key_heads;
  desc.v_heads = config.linear.value_heads;
  desc.k_head_dim = config.linear.key_head_dim;
  desc.v_head_dim = config.linear.value_head_dim;
  desc.block_tokens = group.block_tokens;
  desc.states = group.states;
  desc.steps = desc.skip = config.linear.mamba;
  desc.dt_scale = config.linear.scales.dt;
  return desc;
}

Result<Mamba> Mamba::Make(const Binder& binder, int layer, const batch::KvGroup& group,
                          int group_index) {
  const files::LinearAttentionConfig& linear = binder.config.linear;
  const std::string prefix = StrCat("layers.", layer, ".mamba.");
  Mamba mamba;
  mamba.layer_ = layer;
  mamba.group_ = group_index;
  mamba.in_ = FusedLinear::Make(binder, prefix + "in");
  mamba.output_ = FusedLinear::Make(binder, prefix + "output");
  SLUICE_ASSIGN_OR_RETURN(mamba.conv_, LayerConv::Make(binder, prefix + "taps", group));
  SLUICE_ASSIGN_OR_RETURN(mamba.ssd_,
                          binder.Bind<ops::Ssd>(SsdDesc(binder.config, binder.options, group)));
  ops::GatedNorm::Desc norm;
  norm.activation = binder.options.activation;
  norm.heads = linear.key_heads;
  norm.head_dim = linear.value_width() / linear.key_heads;
  norm.eps = binder.config.norm_eps;
  norm.gate_first = true;
  norm.norm = linear.gated_norm;
  norm.gate_scale = linear.scales.gate;
  norm.out_scale = linear.scales.out;
  SLUICE_ASSIGN_OR_RETURN(mamba.norm_, binder.Bind<ops::GatedNorm>(norm));
  mamba.dt_bias_ = binder.Get(prefix + "dt_bias")->tensor;
  mamba.a_ = binder.Get(prefix + "a")->tensor;
  mamba.skip_ = binder.Get(prefix + "skip")->tensor;
  if (linear.gated_norm) mamba.norm_weight_ = binder.Get(prefix + "norm")->tensor;
  return mamba;
}

Status Mamba::operator()(ForwardContext& context, const DeviceBatch& batch, const Activations& a,
                         const ops::Tensor& residual, const ops::Tensor& out) const {
  SLUICE_RETURN_IF_ERROR(in_(*context.stream, a.normed, {}, a.linear_in));
  SLUICE_RETURN_IF_ERROR(
      conv_(*context.stream, batch, group_, a.linear_qkv, context.kv[layer_].v, a.convolved));
  SLUICE_RETURN_IF_ERROR(Recall(context, batch, a));
  SLUICE_RETURN_IF_ERROR(TellWritten(context, layer_, group_));
  ops::GatedNorm::Args norm;
  norm.x = a.recalled;
  norm.gate = a.linear_gate;
  norm.weight = norm_weight_;
  norm.out = a.recalled;
  SLUICE_RETURN_IF_ERROR(norm_(*context.stream, norm));
  return output_(*context.stream, a.recalled, residual, out);
}

Status Mamba::Recall(ForwardContext& context, const DeviceBatch& batch,
                     const Activations& a) const {
  const ops::Ssd::Desc& desc = ssd_.desc();
  ops::Ssd::Args args;
  args.vkq = a.convolved;
  args.dt = a.linear_ba;
  args.dt_bias = dt_bias_;
  args.a = a_;
  args.skip = skip_;
  args.state = StateOf(context.kv[layer_].k, {desc.v_heads, desc.k_head_dim, desc.v_head_dim});
  SetPlaces(batch, group_, &args);
  args.out = a.recalled;
  return ssd_(*context.stream, args);
}

}  // namespace sluice::model::layers
