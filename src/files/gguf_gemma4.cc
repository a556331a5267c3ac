#include "files/gguf_gemma4.h"

#include <algorithm>
#include <vector>

#include "base/str_cat.h"
#include "files/gemma_layers.h"

namespace sluice::files {
namespace {

// llama.cpp's converter tells of pairs that don't turn by factors beyond all others.
void ReadPortion(RopeConfig* rope) {
  constexpr float kNoTurn = 1e20f;
  const std::vector<float>& factors = rope->frequency_factors;
  const auto rest =
      std::find_if(factors.begin(), factors.end(), [](float factor) { return factor != 1.0f; });
  const bool none =
      std::all_of(rest, factors.end(), [](float factor) { return factor >= kNoTurn; });
  if (factors.empty() || !none || rope->scaling != RopeScaling::kNone) return;
  rope->scaling = RopeScaling::kProportional;
  // Between two numbers of pairs, so that no rounding takes one away.
  rope->portion = (static_cast<float>(rest - factors.begin()) + 0.5f) / factors.size();
  rope->frequency_factors.clear();
}

// What an array may give each layer, or a number all.
Result<std::vector<int>> Required(const GgufFields& fields, std::string_view suffix, IntRange range,
                                  int layers) {
  std::vector<int> values;
  SLUICE_RETURN_IF_ERROR(fields.LayerInts(suffix, range, layers, &values));
  if (values.empty())
    return BadModel(StrCat("the metadata key \"", fields.Key(suffix), "\" is missing"));
  return values;
}

}  // namespace

Status ReadGgufGemma4(const GgufFields& fields, ModelConfig* config) {
  ReadPortion(&config->rope);
  const int full_dim = config->head_dim;
  SLUICE_RETURN_IF_ERROR(fields.Int("attention.key_length_swa", kHeadDimRange, &config->head_dim));
  config->local_rope.rotary_dims = config->head_dim;
  SLUICE_RETURN_IF_ERROR(
      fields.Int("rope.dimension_count_swa", kHeadDimRange, &config->local_rope.rotary_dims));
  SLUICE_ASSIGN_OR_RETURN(
      const std::vector<int> kv_heads,
      Required(fields, "attention.head_count_kv", kHeadsRange, config->num_layers));
  SLUICE_ASSIGN_OR_RETURN(
      const std::vector<int> widths,
      Required(fields, "feed_forward_length", kIntermediateRange, config->num_layers));
  config->num_kv_heads = kv_heads.front();
  config->intermediate_size = widths.front();
  for (size_t i = 0; i < config->layers.size(); ++i) {
    LayerConfig& layer = config->layers[i];
    layer.kv_heads = kv_heads[i];
    if (widths[i] != config->intermediate_size) layer.mlp_width = widths[i];
    if (layer.kind == LayerKind::kFull) layer.head_dim = full_dim;
  }
  SLUICE_RETURN_IF_ERROR(CheckGemma4Kinds(*config));
  int shared = 0;
  SLUICE_RETURN_IF_ERROR(
      fields.Int("attention.shared_kv_layers", {0, config->num_layers - 1}, &shared));
  SLUICE_RETURN_IF_ERROR(ShareKv(shared, config));
  for (size_t i = 0; i < config->layers.size(); ++i) {
    LayerConfig& layer = config->layers[i];
    layer.v_is_k =
        layer.kv_of < 0 && fields.file().Find(StrCat("blk.", i, ".attn_v.weight")) == nullptr;
  }
  SLUICE_RETURN_IF_ERROR(ReadGgufLayerInputs(fields, config));
  return CheckGemma4Inputs(*config);
}

}  // namespace sluice::files
