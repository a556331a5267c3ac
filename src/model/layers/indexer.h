// The indexer of sparse attention (IndexerConfig): keeps a key of each token in the place of V of
// the layer's KV, which latent attention has no use for, and chooses the positions that each row
// sees ("DeepSeek-V3.2-Exp: Boosting Long-Context Efficiency with DeepSeek Sparse Attention").
// Immutable; the ParameterMap and the RopeTable must outlive it.
#pragma once

#include "model/forward.h"
#include "model/layers/activations.h"
#include "model/layers/binder.h"
#include "model/layers/fused_linear.h"
#include "ops/index_scores.h"
#include "ops/norm.h"
#include "ops/rope_kv.h"
#include "ops/top_k.h"

namespace sluice::model::layers {

// How many positions a row sees at most: no more than a sequence has. 0: there is no indexer.
int ListedMax(const files::ModelConfig& config, const ModelOptions& options);

class Indexer {
 public:
  // As of Attention.
  static Result<Indexer> Make(const Binder& binder, int layer, const batch::KvGroup& group,
                              int group_index, const ops::Tensor& rope);

  // False for a default-constructed one: rows see all positions.
  bool bound() const { return top_k_.bound(); }
  // Queries, keys and weights of a.latent_query and a.normed.
  Status Project(device::Stream& stream, const Activations& a) const;
  // Writes the keys into the cache, and rotates both.
  Status Rotate(ForwardContext& context, const DeviceBatch& batch, const Activations& a) const;
  // Fills a.index_positions. REQUIRES: the keys of all positions are in the cache.
  Status Select(ForwardContext& context, const DeviceBatch& batch, const Activations& a) const;

 private:
  ops::PagedKv KeysOf(const ForwardContext& context) const;

  int layer_ = 0, group_ = 0;
  int64_t query_width_ = 0, key_width_ = 0;
  FusedLinear q_, k_, weights_;
  ops::Bound<ops::Norm> k_norm_;
  ops::Tensor k_norm_weight_, k_norm_bias_;
  ops::Bound<ops::RopeKv> rope_kv_;
  ops::Tensor rope_;
  ops::Bound<ops::IndexScores> scores_;
  ops::Bound<ops::TopK> top_k_;
};

}  // namespace sluice::model::layers
