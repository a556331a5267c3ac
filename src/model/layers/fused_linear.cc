#include "model/layers/fused_linear.h"

namespace sluice::model::layers {

FusedLinear FusedLinear::Make(const Binder& binder, const std::string& name) {
  FusedLinear linear;
  linear.weight_ = binder.Get(name);
  if (linear.weight_->spec.bias) linear.bias_ = binder.Get(name + "_bias")->tensor;
  return linear;
}

Status FusedLinear::operator()(device::Stream& stream, const ops::Tensor& x,
                               const ops::Tensor& residual, const ops::Tensor& out) const {
  for (const weights::LinearPart& part : weight_->parts) {
    ops::Linear::Args args;
    args.x = x;
    args.weight = &part.weight;
    args.out = out.Columns(part.row_begin, part.weight.n);
    if (!bias_.empty()) args.bias = bias_.Columns(part.row_begin, part.weight.n);
    if (!residual.empty()) args.residual = residual.Columns(part.row_begin, part.weight.n);
    SLUICE_RETURN_IF_ERROR(part.linear(stream, args));
  }
  return OkStatus();
}

}  // namespace sluice::model::layers
