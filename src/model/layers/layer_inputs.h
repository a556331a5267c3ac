// What each layer is given of a token beside the hidden state (Gemma 3n, Gemma 4 E2B and E4B): for
// all layers at once before the first, and what a layer makes of its own behind its feed-forward
// part. Immutable; the ParameterMap must outlive it.
#pragma once

#include "model/forward.h"
#include "model/layers/activations.h"
#include "model/layers/binder.h"
#include "model/layers/fused_linear.h"
#include "model/layers/norm.h"
#include "ops/activation.h"
#include "ops/embedding.h"

namespace sluice::model::layers {

class LayerInputs {
 public:
  static Result<LayerInputs> Make(const Binder& binder);
  bool bound() const { return norm_.bound(); }

  // a.layer_inputs = a product with a.hidden, normed layer by layer, + the tokens' rows of the
  // table. Uses a.normed.
  Status operator()(device::Stream& stream, const DeviceBatch& batch, const Activations& a) const;

 private:
  Norm convert_;  // the embedding, as the product reads it
  FusedLinear projection_;
  ops::Bound<ops::QkNorm> norm_;  // of layers as of heads
  ops::Bound<ops::Embedding> embedding_;
  ops::Tensor norm_weight_, table_;
};

class LayerInput {
 public:
  static Result<LayerInput> Make(const Binder& binder, int layer);

  // out = output matrix of (act(gate matrix of a.normed) * the layer's part of a.layer_inputs).
  // Uses a.gate_up, a.gated. REQUIRES: `residual` is empty.
  Status operator()(ForwardContext& context, const DeviceBatch& batch, const Activations& a,
                    const ops::Tensor& residual, const ops::Tensor& out) const;

 private:
  int64_t first_ = 0, width_ = 0;  // columns of a.layer_inputs
  FusedLinear gate_, output_;
  ops::Bound<ops::Norm> beside_;  // puts the input beside the gate
  ops::Bound<ops::GatedActivation> gated_;
};

}  // namespace sluice::model::layers
