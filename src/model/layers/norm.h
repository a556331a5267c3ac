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
  Of of() const { return of_; }
  // Makes it give its rows in this form instead of as they are: codes in the memory of a.normed, or
  // for kBoth in that of a.branch. REQUIRES: kResidual or kSum, and for kBoth kResidual.
  Status Give(const Binder& binder, ops::RowForm form);
  // Where a call puts codes; empty where it makes none.
  ops::CodedRows CodesOf(const Activations& a) const;
  // REQUIRES: a.normed_codes is CodesOf(a).
  Status operator()(device::Stream& stream, const Activations& a) const;

 private:
  ops::Bound<ops::Norm> norm_;
  Of of_ = Of::kBranch;
  ops::Tensor weight_, bias_, scale_;  // empty where there is none
};

}  // namespace sluice::model::layers
