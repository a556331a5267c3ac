// RMSNorm with its weight. Immutable; the ParameterMap must outlive it.
#pragma once

#include <string>

#include "model/layers/binder.h"
#include "ops/norm.h"

namespace sluice::model::layers {

class RmsNorm {
 public:
  // What a call normalizes: a block's output, the residual stream, or the residual stream once x
  // has been added to it.
  enum class Of { kBranch, kResidual, kSum };
  static Result<RmsNorm> Make(const Binder& binder, const std::string& name, Of of);

  // out = norm(x) * weight; all [tokens, hidden]; out may be x of the same type. REQUIRES: not
  // kSum.
  Status operator()(device::Stream& stream, const ops::Tensor& x, const ops::Tensor& out) const;
  // residual += x; out = norm(residual) * weight. REQUIRES: kSum.
  Status operator()(device::Stream& stream, const ops::Tensor& x, const ops::Tensor& residual,
                    const ops::Tensor& out) const;

 private:
  ops::Bound<ops::Norm> norm_;
  ops::Tensor weight_;
};

}  // namespace sluice::model::layers
