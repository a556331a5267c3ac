// The end of a model that embeds: the vector of each sequence, from its normed hidden states.
// Immutable.
#pragma once

#include "model/forward.h"
#include "model/layers/activations.h"
#include "model/layers/binder.h"
#include "ops/pool.h"

namespace sluice::model::layers {

class Pooling {
 public:
  // REQUIRES: the model has one.
  static Result<Pooling> Make(const Binder& binder);
  // Of a.normed, into `vectors` [sequences, ModelConfig::vector_size()].
  Status operator()(device::Stream& stream, const DeviceBatch& batch, const Activations& a,
                    const ops::Tensor& vectors) const;

 private:
  ops::Bound<ops::Pool> pool_;
};

}  // namespace sluice::model::layers
