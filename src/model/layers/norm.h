// The norms of hidden states, RMSNorm or LayerNorm as the architecture has it, with their weights.
// One without a name normalizes nothing: it adds what is to be added and hands the sum on.
// Immutable; the ParameterMap must outlive it.
#pragma once

#include <string>

#include "model/layers/activations.h"
#include "model/layers/binder.h"
#include "ops/norm.h"

namespace sluice::model::layers {

class Norm {
 public:
  // What a call normalizes, and into what: a.branch in place, a.hidden into a.normed, a.hidden once
  // a.branch has been added to it into a.normed, a.last into a.last_normed,
  // a.hidden or a.normed in place, or the sum of a.branch and a.normed into a.branch.
  enum class Of { kBranch, kResidual, kSum, kLast, kStream, kNormed, kBoth };
  // `scale`: of kSum, the number F32 [1] that the sum is multiplied by; empty: there is none.
  static Result<Norm> Make(const Binder& binder, const std::string& name, Of of,
                           const ops::Tensor& scale = {});

  bool bound() const { return norm_.bound(); }
  Status operator()(device::Stream& stream, const Activations& a) const;

 private:
  ops::Bound<ops::Norm> norm_;
  Of of_ = Of::kBranch;
  ops::Tensor weight_, bias_, scale_;  // empty where there is none
};

}  // namespace sluice::model::layers
