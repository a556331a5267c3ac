#include "model/layers/dense_and_experts.h"

#include "base/check.h"
#include "base/str_cat.h"

namespace sluice::model::layers {

Result<DenseAndExperts> DenseAndExperts::Make(const Binder& binder, int layer) {
  const std::string prefix = StrCat("layers.", layer, ".");
  DenseAndExperts block;
  SLUICE_ASSIGN_OR_RETURN(
      block.dense_,
      Mlp::Make(binder, prefix + "mlp.", binder.config.mlp_width_of(binder.config.layers[layer])));
  SLUICE_ASSIGN_OR_RETURN(block.experts_, ExpertMlp::Make(binder, layer));
  SLUICE_ASSIGN_OR_RETURN(block.dense_norm_,
                          Norm::Make(binder, prefix + "dense_post_norm", Norm::Of::kBranch));
  SLUICE_ASSIGN_OR_RETURN(block.experts_norm_,
                          Norm::Make(binder, prefix + "experts_post_norm", Norm::Of::kNormed));
  SLUICE_ASSIGN_OR_RETURN(block.sum_, Norm::Make(binder, "", Norm::Of::kBoth));
  return block;
}

Status DenseAndExperts::operator()(ForwardContext& context, const DeviceBatch& batch,
                                   const Activations& a, const ops::Tensor& residual,
                                   const ops::Tensor& out) const {
  CHECK(residual.empty() && out.data == a.branch.data, "norms stand behind both parts");
  device::Stream& stream = *context.stream;
  SLUICE_RETURN_IF_ERROR(dense_(context, batch, a, {}, a.branch));
  SLUICE_RETURN_IF_ERROR(dense_norm_(stream, a));
  // What the experts read is read no more when they are added up.
  SLUICE_RETURN_IF_ERROR(experts_(context, batch, a, {}, a.normed));
  SLUICE_RETURN_IF_ERROR(experts_norm_(stream, a));
  return sum_(stream, a);
}

}  // namespace sluice::model::layers
