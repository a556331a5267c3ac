// Any text as config.json and generation_config.json, separated by a NUL.
#include <cmath>

#include "base/check.h"
#include "base/fuzz_target.h"
#include "files/config_check.h"
#include "files/model_config.h"

void sluice::FuzzInput(std::string_view text) {
  using namespace sluice::files;
  const size_t cut = text.find('\0');
  const std::string_view generation =
      cut == std::string_view::npos ? std::string_view() : text.substr(cut + 1);
  static_cast<void>(GenerationDefaultsFromJson(generation).ok());
  const auto config = ConfigFromJson(text.substr(0, cut), generation);
  if (!config.ok()) return;
  // What code behind files/ relies on.
  CHECK(config->layers.size() == static_cast<size_t>(config->num_layers));
  CHECK(config->num_heads % config->num_kv_heads == 0);
  for (const LayerConfig& layer : config->layers) {
    if (layer.use_rope) {
      const RopeConfig& rope = layer.local_rope ? config->local_rope : config->rope;
      CHECK(rope.rotary_dims % 2 == 0 && rope.rotary_dims <= config->head_dim_of(layer));
    }
    if (layer.kind == LayerKind::kShortConv) CHECK(config->short_conv.kernel >= 2);
    if (!HasState(layer.kind) || layer.kind == LayerKind::kShortConv) continue;
    CHECK((layer.kind == LayerKind::kMamba) == config->linear.mamba);
    CHECK(config->linear.step_rank == 0 || config->linear.key_heads == 1);
    const LinearAttentionConfig& linear = config->linear;
    CHECK(linear.key_heads > 0 && linear.value_heads % linear.key_heads == 0);
    CHECK(linear.channels() > 0 &&
          (linear.conv_kernel >= 2) == (layer.kind != LayerKind::kLightning));
    CHECK(int64_t{linear.value_width()} * linear.key_head_dim <= kLayerStateMax);
  }
  CHECK(config->context_length > 0 && config->vocab_size > 0 && config->hidden_size > 0);
  CHECK(std::isfinite(config->attention_scale) && std::isfinite(config->rope.theta));
}
