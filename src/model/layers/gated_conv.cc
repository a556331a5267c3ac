#include "model/layers/gated_conv.h"

#include "base/str_cat.h"
#include "model/layers/layer_state.h"

namespace sluice::model::layers {

Result<GatedConv> GatedConv::Make(const Binder& binder, int layer, const batch::KvGroup& group,
                                  int group_index) {
  const std::string prefix = StrCat("layers.", layer, ".conv.");
  GatedConv conv;
  conv.layer_ = layer;
  conv.group_ = group_index;
  conv.in_ = FusedLinear::Make(binder, prefix + "in");
  conv.output_ = FusedLinear::Make(binder, prefix + "output");
  const ops::ShortConv::Desc desc = ShortConvDesc(binder.config, binder.options, group);
  SLUICE_ASSIGN_OR_RETURN(conv.conv_, binder.Bind<ops::ShortConv>(desc));
  conv.taps_ = binder.Get(prefix + "taps")->tensor;
  if (desc.bias) conv.bias_ = binder.Get(prefix + "taps_bias")->tensor;
  return conv;
}

Status GatedConv::operator()(ForwardContext& context, const DeviceBatch& batch,
                             const Activations& a, const ops::Tensor& residual,
                             const ops::Tensor& out) const {
  SLUICE_RETURN_IF_ERROR(in_(*context.stream, a.normed, {}, a.linear_in));
  const ops::ShortConv::Desc& desc = conv_.desc();
  ops::ShortConv::Args args;
  args.x = a.linear_in;
  args.weight = taps_;
  args.bias = bias_;
  args.state = StateOf(context.kv[layer_].k, {desc.kernel - 1, desc.channels});
  args.query_start = batch.query_start;
  args.context = batch.context;
  args.block_table = batch.groups[group_].block_table;
  args.out = a.convolved;
  SLUICE_RETURN_IF_ERROR(conv_(*context.stream, args));
  if (context.observer != nullptr) {
    SLUICE_RETURN_IF_ERROR(context.observer->LayerWritten(layer_, group_));
  }
  return output_(*context.stream, a.convolved, residual, out);
}

}  // namespace sluice::model::layers
