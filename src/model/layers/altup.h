// What stands around a layer of a model of several residual streams (AltUp), and beside its
// attention (Laurel). Immutable; the ParameterMap must outlive them.
#pragma once

#include <vector>

#include "model/forward.h"
#include "model/layers/activations.h"
#include "model/layers/binder.h"
#include "model/layers/fused_linear.h"
#include "model/layers/norm.h"
#include "ops/streams.h"

namespace sluice::model::layers {

// The streams where a pass begins and ends.
class Streams {
 public:
  static Result<Streams> Make(const Binder& binder);

  // `a` with its first stream in the place of a.hidden.
  static Activations First(const Activations& a) { return Stream(a, 0); }

  // Makes the others of the first. Uses a.normed.
  Status Begin(device::Stream& stream, const Activations& a) const;
  // a.hidden = the mean of what the streams become, once a.branch has been added to those behind
  // the first. Uses a.normed.
  Status End(device::Stream& stream, const Activations& a) const;

 private:
  static Activations Stream(const Activations& a, int index);

  // Both give what a product reads: of a stream alone, and of it once a.branch has been added.
  Norm convert_, add_;
  FusedLinear begin_;
  std::vector<FusedLinear> end_;  // by stream behind the first
  ops::Bound<ops::LevelStreams> level_, mean_;
};

// Of one layer.
class AltUp {
 public:
  static Result<AltUp> Make(const Binder& binder, int layer);

  // Mixes the streams, once a.branch has been added to those behind the first but in the first
  // layer. a.hidden = the first stream. Uses a.normed, a.routes.
  Status Predict(device::Stream& stream, const Activations& a) const;
  // Hands what a.hidden has become on to all streams, once a.branch has been added to it. a.normed
  // = the first stream times the layer's weights. Uses a.routes.
  Status Correct(device::Stream& stream, const Activations& a) const;

 private:
  Norm norm_, norm_of_sum_;
  FusedLinear router_;
  ops::Bound<ops::PredictStreams> predict_;
  ops::Bound<ops::CorrectStreams> correct_;
  ops::Tensor predict_weight_, correct_weight_, scale_;  // the last is empty where there is none
  bool adds_ = false;
};

// a.hidden += x + norm(right(left(x))) for x = a.normed. Uses a.gate_up, a.branch.
class Laurel {
 public:
  static Result<Laurel> Make(const Binder& binder, int layer);
  Status operator()(device::Stream& stream, const Activations& a) const;

 private:
  FusedLinear left_, right_;
  Norm norm_;
  ops::Bound<ops::Norm> add_;  // x to a.hidden, which takes its place, as it is read no more
  int64_t rank_ = 0;
};

}  // namespace sluice::model::layers
