#include "model/layers/norm.h"

#include "base/check.h"
#include "files/architectures.h"

namespace sluice::model::layers {

Result<Norm> Norm::Make(const Binder& binder, const std::string& name, Of of,
                        const ops::Tensor& scale) {
  const files::ModelConfig& config = binder.config;
  const files::ModelNorm model_norm = files::InfoOf(config.architecture).norm;
  ops::Norm::Desc desc;
  desc.kind = name.empty()                           ? ops::NormKind::kNone
              : model_norm == files::ModelNorm::kRms ? ops::NormKind::kRms
                                                     : ops::NormKind::kLayer;
  desc.activation =
      of == Of::kStream ? ops::ResidualDType(binder.options.activation) : binder.options.activation;
  desc.hidden = config.hidden_size;
  desc.eps = config.norm_eps;
  // The residual stream is kept divided by its scale (TokenEmbedding), and so is the root that eps
  // stands beside.
  const bool inner = of == Of::kBranch || of == Of::kNormed || of == Of::kBoth;
  if (!inner) desc.eps /= config.residual_scale * config.residual_scale;
  desc.add = of == Of::kSum || of == Of::kBoth;
  desc.scaled = !scale.empty();
  desc.bias = !name.empty() && model_norm == files::ModelNorm::kLayer;
  if (of == Of::kStream) desc.activation = ops::ResidualDType(desc.activation);
  desc.f32_residual = !inner && ops::ResidualDType(desc.activation) != desc.activation;
  Norm norm;
  norm.of_ = of;
  norm.scale_ = scale;
  SLUICE_ASSIGN_OR_RETURN(norm.norm_, binder.Bind<ops::Norm>(desc));
  if (!name.empty()) norm.weight_ = binder.Get(name)->tensor;
  if (desc.bias) norm.bias_ = binder.Get(name + "_bias")->tensor;
  return norm;
}

Status Norm::Give(const Binder& binder, ops::RowForm form) {
  CHECK(of_ == Of::kResidual || (of_ == Of::kSum && form != ops::RowForm::kBoth),
        "a norm that writes over what it reads");
  ops::Norm::Desc desc = norm_.desc();
  desc.form = form;
  SLUICE_ASSIGN_OR_RETURN(norm_, binder.Bind<ops::Norm>(desc));
  return OkStatus();
}

ops::CodedRows Norm::CodesOf(const Activations& a) const {
  const ops::RowForm form = norm_.desc().form;
  if (form == ops::RowForm::kPlain) return {};
  return CodesIn(form == ops::RowForm::kCodes ? a.normed : a.branch, norm_.desc().hidden);
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
      args.scale = scale_;
      args.out = a.normed;
      break;
    case Of::kStream:
      args.x = args.out = a.hidden;
      break;
    case Of::kNormed:
      args.x = args.out = a.normed;
      break;
    case Of::kBoth:
      args.x = args.out = a.branch;
      args.residual = a.normed;
      break;
    case Of::kLast:
      args.x = a.last;
      args.out = a.last_normed;
      break;
  }
  if (norm_.desc().form == ops::RowForm::kCodes) args.out = {};
  if (norm_.desc().form != ops::RowForm::kPlain) {
    args.codes = a.normed_codes.codes;
    args.code_scales = a.normed_codes.scales;
  }
  return norm_(stream, args);
}

}  // namespace sluice::model::layers
