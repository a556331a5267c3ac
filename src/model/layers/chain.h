// What stands between the attention of a layer and that of the next one, by one op, for steps of
// few tokens on devices that have it (ops/dense_chain.h, ops/experts_chain.h). Immutable; the
// ParameterMap must outlive it.
#pragma once

#include "model/forward.h"
#include "model/layers/activations.h"
#include "model/layers/binder.h"
#include "ops/dense_chain.h"
#include "ops/experts_chain.h"

namespace sluice::model::layers {

class Chain {
 public:
  // The most tokens of a step that goes through dense chains, as those of experts have one: with
  // more the ops for the parts are as fast (bench/results/2026-11-29-h200-one-sequence.md).
  static constexpr int64_t kTokens = 2;

  // Behind the attention of `layer`, with QKV of the next one where `next` says so. Unbound where
  // the device has no op for it that is faster than its parts, or the weights are none that it
  // reads. REQUIRES: the layer is attention and a feed-forward part with a gate, norms stand before
  // each and nothing stands between.
  static Chain Make(const Binder& binder, int layer, bool next);
  // The same where the feed-forward part is made of experts and nothing else. `counts_row`: of
  // ForwardContext::expert_counts.
  static Chain MakeOfExperts(const Binder& binder, int layer, bool next, int counts_row);

  // Whether a step of so many tokens goes through it.
  bool Takes(int64_t tokens) const {
    return (op_.bound() && tokens <= kTokens) || (experts_.bound() && tokens == 1);
  }
  // `out` = the residual stream behind the layer, of a.hidden, the one before it, and a.attended;
  // a.qkv_gate = QKV of the next layer, where it has that. `middle`: room for the stream between
  // the layer's blocks, which may be a.hidden or out. Uses the activations of the feed-forward
  // part.
  Status operator()(ForwardContext& context, const DeviceBatch& batch, const Activations& a,
                    const ops::Tensor& middle, const ops::Tensor& out) const;
  bool has_next() const { return qkv_ != nullptr; }

 private:
  // The norms' weights, and QKV's where there is a next layer.
  void TakeNorms(const Binder& binder, int layer, const ops::PackedWeight* qkv);
  Status RunExperts(ForwardContext& context, const DeviceBatch& batch, const Activations& a,
                    const ops::Tensor& middle, const ops::Tensor& out) const;

  ops::Bound<ops::DenseChain> op_;
  ops::Bound<ops::ExpertsChain> experts_;  // instead
  const ops::PackedWeight *o_ = nullptr, *gate_up_ = nullptr, *down_ = nullptr, *qkv_ = nullptr;
  ops::Tensor mlp_norm_, next_norm_;
  const ops::PackedWeight* router_ = nullptr;
  ops::Tensor score_bias_, expert_scales_;  // empty: none
  int counts_row_ = -1;
};

}  // namespace sluice::model::layers
