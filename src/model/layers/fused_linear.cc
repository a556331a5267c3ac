#include "model/layers/fused_linear.h"

#include <algorithm>

namespace sluice::model::layers {

FusedLinear FusedLinear::Make(const Binder& binder, const std::string& name) {
  FusedLinear linear;
  linear.weight_ = binder.Get(name);
  if (linear.weight_->spec.bias) linear.bias_ = binder.Get(name + "_bias")->tensor;
  const auto takes_codes = [&](const weights::LinearPart& part) {
    return ops::TakesCodes(binder.table, part.linear.name(), part.linear.desc());
  };
  const std::vector<weights::LinearPart>& parts = linear.weight_->parts;
  linear.takes_codes_ = std::all_of(parts.begin(), parts.end(), takes_codes);
  return linear;
}

Status FusedLinear::operator()(device::Stream& stream, const LinearRows& x,
                               const ops::Tensor& residual, const ops::Tensor& out) const {
  for (const weights::LinearPart& part : weight_->parts) {
    ops::Linear::Args args;
    args.x = x.plain;
    if (takes_codes_ && !x.coded.empty()) {
      args.x = x.coded.codes;
      args.x_scales = x.coded.scales;
    }
    args.weight = &part.weight;
    args.out = out.Columns(part.row_begin, part.weight.n);
    if (!bias_.empty()) args.bias = bias_.Columns(part.row_begin, part.weight.n);
    if (!residual.empty()) args.residual = residual.Columns(part.row_begin, part.weight.n);
    SLUICE_RETURN_IF_ERROR(part.linear(stream, args));
  }
  return OkStatus();
}

}  // namespace sluice::model::layers
