// Latent attention of one layer (LatentConfig), computed in the latent space: queries are led
// there, attend to the rows that tokens keep, or to those that an indexer chooses, and what they
// get is led back to the values of heads ("DeepSeek-V2: A Strong, Economical, and Efficient
// Mixture-of-Experts Language Model"). Immutable; the ParameterMap and the RopeTable must outlive
// it.
#pragma once

#include <string>

#include "model/forward.h"
#include "model/layers/activations.h"
#include "model/layers/binder.h"
#include "model/layers/fused_linear.h"
#include "model/layers/indexer.h"
#include "ops/latent_attention.h"
#include "ops/norm.h"
#include "ops/rope_kv.h"

namespace sluice::model::layers {

// The op's descriptor for the layers of a group.
ops::LatentAttention::Desc LatentAttentionDesc(const files::ModelConfig& config,
                                               const ModelOptions& options,
                                               const batch::KvGroup& group);

class LatentAttention {
 public:
  // As of Attention.
  static Result<LatentAttention> Make(const Binder& binder, int layer, const batch::KvGroup& group,
                                      int group_index, const ops::Tensor& rope);

  // out = output matrix of the attention over a.normed (+ residual). Uses a.qkv, a.q, a.attended
  // and the activations of latent attention.
  Status operator()(ForwardContext& context, const DeviceBatch& batch, const Activations& a,
                    const ops::Tensor& residual, const ops::Tensor& out) const;

 private:
  Status Project(device::Stream& stream, const Activations& a) const;
  Status Rotate(ForwardContext& context, const DeviceBatch& batch, const Activations& a) const;
  Status Attend(ForwardContext& context, const DeviceBatch& batch, const Activations& a) const;
  // out = the products of each head's columns of x with its matrix.
  static Status Multiply(device::Stream& stream, const weights::Parameter& heads,
                         const ops::Tensor& x, const ops::Tensor& out);

  int layer_ = 0, group_ = 0;
  int64_t heads_ = 0;
  files::LatentConfig sizes_;
  FusedLinear q_a_, q_nope_, kv_, output_;
  ops::Bound<ops::Norm> q_a_norm_, kv_norm_;  // the first unbound: queries have no latent
  ops::Tensor q_a_weight_, kv_weight_;
  const weights::Parameter* q_rope_ = nullptr;
  const weights::Parameter* absorb_ = nullptr;
  const weights::Parameter* values_ = nullptr;
  ops::Bound<ops::RopeKv> rope_kv_;
  ops::Tensor rope_;
  ops::Bound<ops::LatentAttention> attention_;
  // Unbound: rows see all positions, or what a layer before this one has chosen.
  Indexer indexer_;
};

}  // namespace sluice::model::layers
