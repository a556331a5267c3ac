#include "model/layers/gated_delta_net.h"

#include "base/str_cat.h"

namespace sluice::model::layers {

ops::GatedDelta::Desc GatedDeltaDesc(const files::ModelConfig& config, const ModelOptions& options,
                                     const batch::KvGroup& group) {
  ops::GatedDelta::Desc desc;
  desc.activation = options.activation;
  desc.k_heads = config.linear.key_heads;
  desc.v_heads = config.linear.value_heads;
  desc.k_head_dim = config.linear.key_head_dim;
  desc.v_head_dim = config.linear.value_head_dim;
  desc.block_tokens = group.block_tokens;
  desc.states = group.states;
  return desc;
}

Result<GatedDeltaNet> GatedDeltaNet::Make(const Binder& binder, int layer,
                                          const batch::KvGroup& group, int group_index) {
  const files::ModelConfig& config = binder.config;
  const std::string prefix = StrCat("layers.", layer, ".linear.");
  GatedDeltaNet net;
  net.layer_ = layer;
  net.group_ = group_index;
  net.in_ = FusedLinear::Make(binder, prefix + "in");
  net.output_ = FusedLinear::Make(binder, prefix + "output");
  SLUICE_ASSIGN_OR_RETURN(net.conv_, LayerConv::Make(binder, prefix + "conv", group));
  SLUICE_ASSIGN_OR_RETURN(
      net.delta_, binder.Bind<ops::GatedDelta>(GatedDeltaDesc(config, binder.options, group)));
  ops::GatedNorm::Desc norm;
  norm.activation = binder.options.activation;
  norm.heads = config.linear.value_heads;
  norm.head_dim = config.linear.value_head_dim;
  norm.eps = config.norm_eps;
  SLUICE_ASSIGN_OR_RETURN(net.norm_, binder.Bind<ops::GatedNorm>(norm));
  net.dt_bias_ = binder.Get(prefix + "dt_bias")->tensor;
  net.a_log_ = binder.Get(prefix + "a_log")->tensor;
  net.norm_weight_ = binder.Get(prefix + "norm")->tensor;
  return net;
}

Status GatedDeltaNet::operator()(ForwardContext& context, const DeviceBatch& batch,
                                 const Activations& a, const ops::Tensor& residual,
                                 const ops::Tensor& out) const {
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

Status GatedDeltaNet::Recall(ForwardContext& context, const DeviceBatch& batch,
                             const Activations& a) const {
  const ops::GatedDelta::Desc& desc = delta_.desc();
  ops::GatedDelta::Args args;
  args.qkv = a.convolved;
  args.ba = a.linear_ba;
  args.dt_bias = dt_bias_;
  args.a_log = a_log_;
  args.state = StateOf(context.kv[layer_].k, {desc.v_heads, desc.k_head_dim, desc.v_head_dim});
  SetPlaces(batch, group_, &args);
  args.out = a.recalled;
  return delta_(*context.stream, args);
}

}  // namespace sluice::model::layers
