#include "model/layers/gated_conv.h"

#include "base/str_cat.h"

namespace sluice::model::layers {

Result<GatedConv> GatedConv::Make(const Binder& binder, int layer, const batch::KvGroup& group,
                                  int group_index) {
  const std::string prefix = StrCat("layers.", layer, ".conv.");
  GatedConv conv;
  conv.layer_ = layer;
  conv.group_ = group_index;
  conv.in_ = FusedLinear::Make(binder, prefix + "in");
  conv.output_ = FusedLinear::Make(binder, prefix + "output");
  SLUICE_ASSIGN_OR_RETURN(conv.conv_, LayerConv::Make(binder, prefix + "taps", group));
  return conv;
}

Status GatedConv::operator()(ForwardContext& context, const DeviceBatch& batch,
                             const Activations& a, const ops::Tensor& residual,
                             const ops::Tensor& out) const {
  SLUICE_RETURN_IF_ERROR(in_(*context.stream, a.normed, {}, a.linear_in));
  SLUICE_RETURN_IF_ERROR(
      conv_(*context.stream, batch, group_, a.linear_in, context.kv[layer_].k, a.convolved));
  SLUICE_RETURN_IF_ERROR(TellWritten(context, layer_, group_));
  return output_(*context.stream, a.convolved, residual, out);
}

}  // namespace sluice::model::layers
