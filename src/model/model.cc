#include "model/model.h"

#include <algorithm>

#include "model/layers/activations.h"

namespace sluice::model {

Model::Model(ModelParts parts)
    : config_(std::move(parts.config)),
      options_(std::move(parts.options)),
      groups_(LayerGroups(config_, options_)),
      group_of_(config_.layers.size()),
      parameters_(std::move(parts.parameters)),
      device_(*parts.device) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (int layer : groups_[g].layers) group_of_[layer] = static_cast<int>(g);
  }
}

std::vector<batch::KvGroup> LayerGroups(const files::ModelConfig& config,
                                        const ModelOptions& options) {
  std::vector<batch::KvGroup> groups;
  for (int layer = 0; layer < config.num_layers; ++layer) {
    const bool window = config.layers[layer].kind == files::LayerKind::kWindow;
    const batch::KvKind kind = window ? batch::KvKind::kWindow : batch::KvKind::kFull;
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const batch::KvGroup& g) { return g.kind == kind; });
    if (group == groups.end()) {
      batch::KvGroup fresh;
      fresh.kind = kind;
      fresh.window = window ? config.sliding_window : 0;
      fresh.block_tokens = options.block_tokens;
      fresh.kernel_block_tokens = options.kernel_block_tokens;
      fresh.dtype = options.kv_dtype;
      fresh.kv_heads = config.num_kv_heads;
      fresh.k_head_dim = fresh.v_head_dim = config.head_dim;
      group = groups.insert(groups.end(), std::move(fresh));
    }
    group->layers.push_back(layer);
  }
  return groups;
}

size_t WorkspaceBytes(const files::ModelConfig& config, const ModelOptions& options) {
  return layers::Activations::Bytes(config, options);
}

size_t RopeTableBytes(const files::ModelConfig& config, const ModelOptions& options) {
  const bool local = std::any_of(config.layers.begin(), config.layers.end(),
                                 [](const files::LayerConfig& layer) { return layer.local_rope; });
  const int64_t positions =
      options.max_model_len > 0 ? options.max_model_len : config.context_length;
  const int64_t width = config.rope.rotary_dims + (local ? config.local_rope.rotary_dims : 0);
  return static_cast<size_t>(positions * width) * sizeof(float);
}

}  // namespace sluice::model
