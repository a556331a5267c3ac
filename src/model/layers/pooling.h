// The end of a model that embeds: the vector of each sequence, from its normed hidden states.
// Immutable.
#pragma once

#include "model/forward.h"
#include "model/layers/activations.h"
#include "model/layers/binder.h"
#include "model/layers/fused_linear.h"
#include "ops/activation.h"
#include "ops/pool.h"

namespace sluice::model::layers {

class Pooling {
 public:
  // REQUIRES: the model has one.
  static Result<Pooling> Make(const Binder& binder);
  // Of a.normed, by way of a.hidden and a.branch, into `vectors` [sequences,
  // ModelConfig::vector_size()].
  Status operator()(device::Stream& stream, const DeviceBatch& batch, const Activations& a,
                    const ops::Tensor& vectors) const;

 private:
  ops::Bound<ops::Pool> pool_;
  // Of a model that classifies: tanh stands between the two.
  FusedLinear dense_, labels_;
  ops::Bound<ops::SoftCap> tanh_;  // unbound: the model does not
};

}  // namespace sluice::model::layers
