// Self-attention of one layer: QKV, Q/K norms, RoPE and KV write, paged attention, a gate where the
// model has one, output matrix.
// Immutable; the ParameterMap and the RopeTable must outlive it.
#pragma once

#include "model/forward.h"
#include "model/layers/activations.h"
#include "model/layers/binder.h"
#include "model/layers/fused_linear.h"
#include "ops/attention.h"
#include "ops/gate.h"
#include "ops/norm.h"
#include "ops/normed_rope_kv.h"
#include "ops/rope_kv.h"

namespace sluice::model::layers {

// How ops see what the layers of a group keep.
ops::KvDesc KvDescOf(const batch::KvGroup& group);
// The op's descriptor for the layers of a group that rotate (`use_rope`), or for those that don't.
ops::Attention::Desc AttentionDesc(const files::ModelConfig& config, const ModelOptions& options,
                                   const batch::KvGroup& group, bool use_rope);

// What layers share that no checkpoint has.
struct AttentionTables {
  ops::Tensor rope;    // empty where the layer does not rotate
  ops::Tensor slopes;  // F32 [heads], of ALiBi; empty where there is none
  ops::Tensor ones;    // F32 [widest head], where heads have a norm without weights
};

class Attention {
 public:
  // `group`: the layer's group and its index.
  static Result<Attention> Make(const Binder& binder, int layer, const batch::KvGroup& group,
                                int group_index, const AttentionTables& tables);

  // out = output matrix of the attention over widest.normed_rows() (+ residual). Uses its qkv_gate,
  // q, attended.
  Status operator()(ForwardContext& context, const DeviceBatch& batch, const Activations& widest,
                    const ops::Tensor& residual, const ops::Tensor& out) const;
  // The first half of that: K and V of a.normed_rows() go to the cache, and no more is done.
  // REQUIRES: all layers have heads of one size.
  Status WriteKv(ForwardContext& context, const DeviceBatch& batch, const Activations& a) const;
  RowsRead reads() const { return qkv_.reads(); }
  // That in two halves, for whoever makes products of several blocks together: a.attended, all that
  // the output matrix reads, where `projected` says that a.qkv_gate is there already. REQUIRES:
  // halves().
  Status Mix(ForwardContext& context, const DeviceBatch& batch, const Activations& a,
             bool projected) const;
  Status Project(ForwardContext& context, const Activations& a, const ops::Tensor& residual,
                 const ops::Tensor& out) const {
    return output_(*context.stream, a.attended, residual, out);
  }
  // Whether the output matrix reads what attention gives, at the width that all layers have.
  bool halves() const { return !narrow_ && !gate_.bound(); }

 private:
  // Tensors of this layer's heads in the memory of those of the widest.
  Activations Narrowed(const Activations& a) const;
  Status Run(ForwardContext& context, const DeviceBatch& batch, const Activations& a,
             const ops::Tensor& residual, const ops::Tensor& out) const;
  // K and V of a.qkv_gate go to the cache.
  Status KeepKv(ForwardContext& context, const DeviceBatch& batch, const Activations& a) const;
  Status BindNorms(const Binder& binder, const std::string& prefix, const ops::Tensor& ones);
  Status Normalize(device::Stream& stream, const Activations& a) const;
  ops::RopeKv::Args RopeArgs(ForwardContext& context, const DeviceBatch& batch,
                             const Activations& a) const;
  Status Rotate(ForwardContext& context, const DeviceBatch& batch, const Activations& a) const;
  Status Attend(ForwardContext& context, const DeviceBatch& batch, const Activations& a) const;

  int layer_ = 0, group_ = 0;  // the layer whose KV it reads
  int kv_heads_ = 0;           // that it writes; 0: another layer has
  int head_dim_ = 0;
  int64_t q_width_ = 0;  // of all heads of Q
  bool narrow_ = false;  // other layers have other heads
  bool first_of_group_ = false;
  FusedLinear qkv_, output_;
  ops::Bound<ops::QkNorm> qk_norm_;  // unbound: the model does not normalize each head
  ops::Bound<ops::Norm> all_q_norm_, all_k_norm_;  // unbound: nor all heads together
  ops::Tensor q_norm_, k_norm_;
  ops::Bound<ops::QkNorm> v_norm_;  // of heads that are all V's; unbound: V has no norm
  ops::Tensor ones_;                // its weights
  ops::Bound<ops::RopeKv> rotate_;  // before the norms; unbound: rope_kv_ rotates
  ops::Bound<ops::RopeKv> rope_kv_;
  ops::Bound<ops::NormedRopeKv> normed_rope_kv_;  // qk_norm_ and rope_kv_ as one op, if it is there
  ops::Tensor rope_;
  ops::Bound<ops::Attention> attention_;
  ops::Tensor sinks_, bias_;           // empty: the model has none
  ops::Tensor slopes_;                 // empty: the model has no ALiBi
  ops::Bound<ops::SigmoidGate> gate_;  // unbound: the model has none
};

}  // namespace sluice::model::layers
