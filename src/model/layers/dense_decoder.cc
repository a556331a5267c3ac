#include "model/layers/dense_decoder.h"

#include <algorithm>

namespace sluice::model::layers {

Status DenseDecoder::BuildEnds(const Binder& binder, bool final_norm) {
  SLUICE_ASSIGN_OR_RETURN(embedding_, TokenEmbedding::Make(binder));
  SLUICE_ASSIGN_OR_RETURN(head_, LogitsHead::Make(binder, final_norm));
  const int64_t positions = options_.max_model_len;
  const auto table = [&](const files::RopeConfig& rope) {
    return RopeTable::Make(device_, ComputeRopeFrequencies(rope, config_.context_length, positions),
                           positions);
  };
  SLUICE_ASSIGN_OR_RETURN(rope_, table(config_.rope));
  const bool local = std::any_of(config_.layers.begin(), config_.layers.end(),
                                 [](const files::LayerConfig& layer) { return layer.local_rope; });
  if (local) {
    SLUICE_ASSIGN_OR_RETURN(local_rope_, table(config_.local_rope));
  }
  return OkStatus();
}

Result<Attention> DenseDecoder::MakeAttention(const Binder& binder, int layer) const {
  const files::LayerConfig& config = config_.layers[layer];
  ops::Tensor rope;
  if (config.use_rope) rope = config.local_rope ? local_rope_.tensor() : rope_.tensor();
  const int group = group_of(layer);
  return Attention::Make(binder, layer, groups_[group], group, rope);
}

}  // namespace sluice::model::layers
