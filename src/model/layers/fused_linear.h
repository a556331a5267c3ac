// A matrix product whose matrix may lie in parts (rows in different number formats). Each part
// writes its own columns of the output. Immutable; the ParameterMap must outlive it.
#pragma once

#include <string>

#include "model/layers/binder.h"
#include "ops/linear.h"

namespace sluice::model::layers {

class FusedLinear {
 public:
  // The matrix `name` with its bias `name` + "_bias", where the model has one.
  static FusedLinear Make(const Binder& binder, const std::string& name);

  // out = x W^T (+ bias) (+ residual). x [tokens, columns], out and residual [tokens, rows].
  // `residual` is empty unless the matrix was declared with one, and may be `out`.
  Status operator()(device::Stream& stream, const ops::Tensor& x, const ops::Tensor& residual,
                    const ops::Tensor& out) const;

 private:
  const weights::Parameter* weight_ = nullptr;
  ops::Tensor bias_;
};

}  // namespace sluice::model::layers
