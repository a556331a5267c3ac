#include "model/layers/lightning_attention.h"

#include <cmath>

#include "base/str_cat.h"
#include "model/layers/layer_state.h"
#include "model/layers/mamba.h"

namespace sluice::model::layers {
namespace {

constexpr float kNormEps = 1e-6f;  // which no file says

}  // namespace

std::vector<float> LightningDecays(int heads, int layer, int layers) {
  std::vector<float> decays(static_cast<size_t>(heads));
  // As transformers has it: the last layer forgets next to nothing.
  const double factor = 1.0 - layer / (layers - 1 + 1e-5) + 1e-5;
  for (int h = 0; h < heads; ++h)
    decays[static_cast<size_t>(h)] =
        static_cast<float>(-std::exp2(-8.0 * (h + 1) / heads) * factor);
  return decays;
}

Result<LightningAttention> LightningAttention::Make(const Binder& binder, int layer,
                                                    const batch::KvGroup& group, int group_index,
                                                    device::Device& device) {
  const files::LinearAttentionConfig& linear = binder.config.linear;
  const DType activation = binder.options.activation;
  const std::string prefix = StrCat("layers.", layer, ".lightning.");
  LightningAttention attention;
  attention.layer_ = layer;
  attention.group_ = group_index;
  attention.in_ = FusedLinear::Make(binder, prefix + "in");
  attention.output_ = FusedLinear::Make(binder, prefix + "output");
  SLUICE_ASSIGN_OR_RETURN(
      attention.silu_,
      binder.Bind<ops::PlainActivation>(
          {.kind = ops::Activation::kSilu, .activation = activation, .width = linear.channels()}));
  SLUICE_ASSIGN_OR_RETURN(attention.ssd_,
                          binder.Bind<ops::Ssd>(SsdDesc(binder.config, binder.options, group)));
  SLUICE_ASSIGN_OR_RETURN(attention.norm_, binder.Bind<ops::Norm>({.activation = activation,
                                                                   .hidden = linear.value_width(),
                                                                   .eps = kNormEps}));
  SLUICE_ASSIGN_OR_RETURN(
      attention.gate_,
      binder.Bind<ops::SigmoidGate>({.activation = activation, .width = linear.value_width()}));
  attention.norm_weight_ = binder.Get(prefix + "norm")->tensor;
  SLUICE_ASSIGN_OR_RETURN(attention.decays_,
                          HeadVector::Make(device, LightningDecays(linear.value_heads, layer,
                                                                   binder.config.num_layers)));
  return attention;
}

Status LightningAttention::operator()(ForwardContext& context, const DeviceBatch& batch,
                                      const Activations& a, const ops::Tensor& residual,
                                      const ops::Tensor& out) const {
  device::Stream& stream = *context.stream;
  SLUICE_RETURN_IF_ERROR(in_(stream, a.normed, {}, a.linear_in));
  SLUICE_RETURN_IF_ERROR(silu_(stream, {a.linear_qkv}));
  const ops::Ssd::Desc& desc = ssd_.desc();
  ops::Ssd::Args args;
  args.vkq = a.linear_qkv;
  args.a = decays_.tensor();
  args.state = StateOf(context.kv[layer_].k, {desc.v_heads, desc.k_head_dim, desc.v_head_dim});
  SetPlaces(batch, group_, &args);
  args.out = a.recalled;
  SLUICE_RETURN_IF_ERROR(ssd_(stream, args));
  SLUICE_RETURN_IF_ERROR(TellWritten(context, layer_, group_));
  ops::Norm::Args norm;
  norm.x = norm.out = a.recalled;
  norm.weight = norm_weight_;
  SLUICE_RETURN_IF_ERROR(norm_(stream, norm));
  SLUICE_RETURN_IF_ERROR(gate_(stream, {a.recalled, a.linear_gate}));
  return output_(stream, a.recalled, residual, out);
}

}  // namespace sluice::model::layers
