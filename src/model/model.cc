#include "model/model.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::model {

Model::Model(ModelParts parts)
    : config_(std::move(parts.config)),
      options_(std::move(parts.options)),
      groups_(LayerGroups(config_, options_)),
      group_of_(config_.layers.size() + static_cast<size_t>(options_.mtp_heads)),
      parameters_(std::move(parts.parameters)),
      host_parameters_(std::move(parts.host_parameters)),
      device_(*parts.device) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (int layer : groups_[g].layers) group_of_[layer] = static_cast<int>(g);
  }
  for (size_t layer = 0; layer < config_.layers.size(); ++layer) {
    const int owner = config_.layers[layer].kv_of;
    if (owner >= 0) group_of_[layer] = group_of_[static_cast<size_t>(owner)];
  }
}

Status Model::Draft(ForwardContext&, const DeviceBatch&, const ops::Tensor&, const DraftOutputs&,
                    int) const {
  CHECK(false, "the model has no head that guesses");
}

namespace {

batch::KvKind KindOf(files::LayerKind kind) {
  switch (kind) {
    case files::LayerKind::kFull:
      return batch::KvKind::kFull;
    case files::LayerKind::kWindow:
      return batch::KvKind::kWindow;
    case files::LayerKind::kLinear:
    case files::LayerKind::kShortConv:
    case files::LayerKind::kMamba:
    case files::LayerKind::kLightning:
      return batch::KvKind::kState;
  }
  return batch::KvKind::kFull;
}

// What a layer keeps, as a group without layers.
batch::KvGroup GroupOf(const files::LayerConfig& layer, const files::ModelConfig& config,
                       const ModelOptions& options) {
  const batch::KvKind kind = KindOf(layer.kind);
  batch::KvGroup group;
  group.kind = kind;
  if (kind == batch::KvKind::kState) {
    const files::LinearAttentionConfig& linear = config.linear;
    group.block_tokens = group.kernel_block_tokens = options.state_block_tokens;
    group.dtype = DType::kF32;
    group.kv_heads = 1;
    group.states = 1 + options.draft_tokens;
    group.k_head_dim = linear.value_width() * linear.key_head_dim;
    group.v_head_dim = linear.conv_rows() * linear.channels();
    // A convolution alone has its rows in K's place, as a group has no V without K.
    if (config.short_conv.kernel > 0) {
      group.k_head_dim = (config.short_conv.kernel - 1) * config.hidden_size;
      group.v_head_dim = 0;
    }
    return group;
  }
  group.window = kind == batch::KvKind::kWindow ? config.sliding_window : 0;
  group.block_tokens = options.block_tokens;
  group.kernel_block_tokens = options.kernel_block_tokens;
  group.dtype = options.kv_dtype;
  group.kv_heads = config.kv_heads_of(layer);
  group.k_head_dim = group.v_head_dim = config.head_dim_of(layer);
  if (config.latent.kv_rank > 0) {
    group.k_head_dim = config.latent.key_width();
    // Of the keys of an indexer.
    group.v_head_dim = layer.reuses_positions ? 0 : config.latent.indexer.head_dim;
  }
  return group;
}

}  // namespace

std::vector<batch::KvGroup> LayerGroups(const files::ModelConfig& config,
                                        const ModelOptions& options) {
  std::vector<batch::KvGroup> groups;
  for (int layer = 0; layer < config.num_layers + options.mtp_heads; ++layer) {
    const bool head = layer >= config.num_layers;
    // What reads the KV of another layer keeps nothing.
    if (!head && config.layers[layer].kv_of >= 0) continue;
    const batch::KvGroup kept =
        GroupOf(head ? files::LayerConfig() : config.layers[layer], config, options);
    auto group = std::find_if(groups.begin(), groups.end(), [&kept](batch::KvGroup other) {
      other.layers.clear();
      return other == kept;
    });
    if (group == groups.end()) group = groups.insert(groups.end(), kept);
    group->layers.push_back(layer);
  }
  return groups;
}

int64_t Positions(const files::ModelConfig& config, const ModelOptions& options) {
  return options.max_model_len > 0 ? options.max_model_len : config.context_length;
}

size_t RopeTableBytes(const files::ModelConfig& config, const ModelOptions& options) {
  if (std::none_of(config.layers.begin(), config.layers.end(),
                   [](const files::LayerConfig& layer) { return layer.use_rope; }))
    return 0;
  const bool local = std::any_of(config.layers.begin(), config.layers.end(),
                                 [](const files::LayerConfig& layer) { return layer.local_rope; });
  const int64_t width = config.rope.rotary_dims + (local ? config.local_rope.rotary_dims : 0);
  return static_cast<size_t>(Positions(config, options) * width) * sizeof(float);
}

}  // namespace sluice::model
