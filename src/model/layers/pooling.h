// The end of a model that embeds: the vector of each sequence, from its normed hidden states.
// Immutable.
#pragma once

#include <vector>

#include "model/forward.h"
#include "model/layers/activations.h"
#include "model/layers/binder.h"
#include "model/layers/fused_linear.h"
#include "ops/activation.h"
#include "ops/norm.h"
#include "ops/pool.h"

namespace sluice::model::layers {

class Pooling {
 public:
  // REQUIRES: the model has one.
  static Result<Pooling> Make(const Binder& binder);
  // Of a.normed, by way of a.hidden and a.pooled, into `vectors` [sequences,
  // ModelConfig::vector_size()].
  Status operator()(device::Stream& stream, const DeviceBatch& batch, const Activations& a,
                    const ops::Tensor& vectors) const;

 private:
  // A product of the pooled vector and what follows it.
  struct Step {
    FusedLinear linear;
    ops::Bound<ops::SoftCap> tanh;          // unbound: not this
    ops::Bound<ops::PlainActivation> gelu;  // nor this
    ops::Bound<ops::Norm> norm;             // nor this
    ops::Tensor norm_weight;
    int64_t out = 0;

    Status operator()(device::Stream& stream, const ops::Tensor& x, const ops::Tensor& to) const;
  };

  static Result<Step> MakeDense(const Binder& binder, size_t number);
  static Result<Step> MakeHead(const Binder& binder);

  ops::Bound<ops::Pool> pool_;
  std::vector<Step> steps_;  // the last one gives the vectors; none: they are what is pooled
};

}  // namespace sluice::model::layers
