#include "model/layers/norm.h"

#include "files/architectures.h"

namespace sluice::model::layers {

Result<Norm> Norm::Make(const Binder& binder, const std::string& name, Of of) {
  const bool layer = files::InfoOf(binder.config.architecture).layer_norms;
  ops::Norm::Desc desc;
  desc.kind = layer ? ops::NormKind::kLayer : ops::NormKind::kRms;
  desc.activation = binder.options.activation;
  desc.hidden = binder.config.hidden_size;
  desc.eps = binder.config.norm_eps;
  desc.add = of == Of::kSum;
  desc.bias = layer;
  desc.f32_residual = of != Of::kBranch && ops::ResidualDType(desc.activation) != desc.activation;
  Norm norm;
  norm.of_ = of;
  SLUICE_ASSIGN_OR_RETURN(norm.norm_, binder.Bind<ops::Norm>(desc));
  norm.weight_ = binder.Get(name)->tensor;
  if (layer) norm.bias_ = binder.Get(name + "_bias")->tensor;
  return norm;
}

Status Norm::operator()(device::Stream& stream, const Activations& a) const {
  ops::Norm::Args args;
  args.weight = weight_;
  args.bias = bias_;
  switch (of_) {
    case Of::kBranch:
      args.x = args.out = a.branch;
      break;
    case Of::kResidual:
      args.x = a.hidden;
      args.out = a.normed;
      break;
    case Of::kSum:
      args.x = a.branch;
      args.residual = a.hidden;
      args.out = a.normed;
      break;
    case Of::kLast:
      args.x = a.last;
      args.out = a.last_normed;
      break;
  }
  return norm_(stream, args);
}

}  // namespace sluice::model::layers
