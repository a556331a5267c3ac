#include "model/layers/fused_linear.h"

namespace sluice::model::layers {
namespace {

// Columns [begin, begin + count) of every row.
ops::Tensor Columns(ops::Tensor t, int64_t begin, int64_t count) {
  t.data += begin * Info(t.dtype).bytes;
  t.dims[t.rank - 1] = count;
  return t;
}

}  // namespace

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
    args.out = Columns(out, part.row_begin, part.weight.n);
    if (!bias_.empty()) args.bias = Columns(bias_, part.row_begin, part.weight.n);
    if (!residual.empty()) args.residual = Columns(residual, part.row_begin, part.weight.n);
    SLUICE_RETURN_IF_ERROR(part.linear(stream, args));
  }
  return OkStatus();
}

}  // namespace sluice::model::layers
