// RMSNorm with its weight. Immutable; the ParameterMap must outlive it.
#pragma once

#include <string>

#include "model/layers/binder.h"
#include "ops/norm.h"

namespace sluice::model::layers {

class RmsNorm {
 public:
  // `add`: the call first adds x to the residual and normalizes the sum.
  static Result<RmsNorm> Make(const Binder& binder, const std::string& name, bool add = false);

  // out = norm(x) * weight; all [tokens, hidden]; out may be x.
  Status operator()(device::Stream& stream, const ops::Tensor& x, const ops::Tensor& out) const;
  // residual += x; out = norm(residual) * weight. REQUIRES: made with `add`.
  Status operator()(device::Stream& stream, const ops::Tensor& x, const ops::Tensor& residual,
                    const ops::Tensor& out) const;

 private:
  ops::Bound<ops::Norm> norm_;
  ops::Tensor weight_;
};

}  // namespace sluice::model::layers
