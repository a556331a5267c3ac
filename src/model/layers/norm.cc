#include "model/layers/norm.h"

namespace sluice::model::layers {

Result<RmsNorm> RmsNorm::Make(const Binder& binder, const std::string& name, Of of) {
  ops::Norm::Desc desc;
  desc.activation = binder.options.activation;
  desc.hidden = binder.config.hidden_size;
  desc.eps = binder.config.norm_eps;
  desc.add = of == Of::kSum;
  desc.f32_residual = of != Of::kBranch && ops::ResidualDType(desc.activation) != desc.activation;
  RmsNorm norm;
  SLUICE_ASSIGN_OR_RETURN(norm.norm_, binder.Bind<ops::Norm>(desc));
  norm.weight_ = binder.Get(name)->tensor;
  return norm;
}

Status RmsNorm::operator()(device::Stream& stream, const ops::Tensor& x,
                           const ops::Tensor& out) const {
  return (*this)(stream, x, {}, out);
}

Status RmsNorm::operator()(device::Stream& stream, const ops::Tensor& x,
                           const ops::Tensor& residual, const ops::Tensor& out) const {
  CHECK(norm_.desc().add == !residual.empty(), "a norm of sums has a residual");
  ops::Norm::Args args;
  args.x = x;
  args.residual = residual;
  args.weight = weight_;
  args.out = out;
  return norm_(stream, args);
}

}  // namespace sluice::model::layers
