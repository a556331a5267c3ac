#include "model/layers/plain_mlp.h"

#include "base/str_cat.h"
#include "model/layers/gated_mlp.h"

namespace sluice::model::layers {

Result<PlainMlp> PlainMlp::Make(const Binder& binder, int layer) {
  PlainMlp mlp;
  mlp.up_ = FusedLinear::Make(binder, StrCat("layers.", layer, ".mlp.up"));
  mlp.down_ = FusedLinear::Make(binder, StrCat("layers.", layer, ".mlp.down"));
  ops::PlainActivation::Desc desc;
  desc.kind = ActivationOf(binder.config);
  desc.activation = binder.options.activation;
  desc.width = binder.config.intermediate_size;
  SLUICE_ASSIGN_OR_RETURN(mlp.activation_, binder.Bind<ops::PlainActivation>(desc));
  return mlp;
}

Status PlainMlp::operator()(ForwardContext& context, const DeviceBatch&, const Activations& a,
                            const ops::Tensor& residual, const ops::Tensor& out) const {
  device::Stream& stream = *context.stream;
  SLUICE_RETURN_IF_ERROR(up_(stream, a.normed, {}, a.gated));
  SLUICE_RETURN_IF_ERROR(activation_(stream, {.x = a.gated}));
  return down_(stream, a.gated, residual, out);
}

}  // namespace sluice::model::layers
