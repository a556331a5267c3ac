#include "files/hf_gemma4.h"

#include <string>

#include "base/str_cat.h"
#include "files/gemma_layers.h"

namespace sluice::files {
namespace {

constexpr int kGlobalHeadDim = 512;
constexpr float kRopePortion = 0.25f;

Status ReadSharedKv(const JsonFields& fields, ModelConfig* config) {
  int shared = 0;
  bool wide = false;
  SLUICE_RETURN_IF_ERROR(fields.Int("num_kv_shared_layers", {0, config->num_layers - 1}, &shared));
  SLUICE_RETURN_IF_ERROR(fields.Bool("use_double_wide_mlp", &wide));
  SLUICE_RETURN_IF_ERROR(ShareKv(shared, config));
  for (LayerConfig& layer : config->layers) {
    if (wide && layer.kv_of >= 0) layer.mlp_width = 2 * config->intermediate_size;
  }
  return OkStatus();
}

Status ReadExperts(const JsonFields& fields, ModelConfig* config) {
  bool enabled = false;
  SLUICE_RETURN_IF_ERROR(fields.Bool("enable_moe_block", &enabled));
  if (!enabled) return OkStatus();
  ExpertsConfig experts;
  experts.renormalize = experts.scales = experts.beside_dense = true;
  const IntRange some = {1, kExpertsRange.max};
  SLUICE_RETURN_IF_ERROR(fields.Int("num_experts", some, &experts.count));
  SLUICE_RETURN_IF_ERROR(fields.Int("top_k_experts", kExpertsPerTokenRange, &experts.per_token));
  SLUICE_RETURN_IF_ERROR(fields.Int("moe_intermediate_size", kIntermediateRange, &experts.width));
  if (experts.count == 0 || experts.per_token == 0 || experts.width == 0) {
    return BadModel(
        "\"enable_moe_block\" is true; then \"num_experts\", \"top_k_experts\" and "
        "\"moe_intermediate_size\" are needed");
  }
  config->experts = experts;
  for (LayerConfig& layer : config->layers) layer.experts = true;
  return OkStatus();
}

// What "per_layer_config" says of a layer, over what holds for its kind.
Status ReadLayer(const JsonFields& of_layers, size_t i, LayerConfig* layer) {
  SLUICE_ASSIGN_OR_RETURN(const auto fields, of_layers.Object(StrCat(i)));
  if (!fields) return OkStatus();
  SLUICE_RETURN_IF_ERROR(fields->Int("head_dim", kHeadDimRange, &layer->head_dim));
  return fields->Int("num_key_value_heads", kHeadsRange, &layer->kv_heads);
}

Status CheckRopeKind(const char* layers, const RopeConfig& rope) {
  if (rope.scaling == RopeScaling::kNone || rope.scaling == RopeScaling::kLinear ||
      rope.scaling == RopeScaling::kProportional) {
    return OkStatus();
  }
  return BadModel(StrCat("\"rope_parameters\" of \"", layers,
                         "\" have a type that Gemma 4 models are not supported with; default, "
                         "linear and proportional are"));
}

}  // namespace

Status ReadHfGemma4(const JsonFields& fields, ModelConfig* config) {
  SLUICE_RETURN_IF_ERROR(ReadHfLayerInputs(fields, 0, config));
  SLUICE_RETURN_IF_ERROR(CheckGemma4Inputs(*config));
  if (!fields.Has("rope_parameters")) {
    config->rope.scaling = RopeScaling::kProportional;
    config->rope.portion = kRopePortion;
  }
  SLUICE_RETURN_IF_ERROR(CheckRopeKind("full_attention", config->rope));
  SLUICE_RETURN_IF_ERROR(CheckRopeKind("sliding_attention", config->local_rope));
  // As transformers has it, whatever the file says.
  config->layers.back().kind = LayerKind::kFull;
  config->layers.back().local_rope = false;
  LayerConfig full;
  full.head_dim = kGlobalHeadDim;
  SLUICE_RETURN_IF_ERROR(fields.Bool("attention_k_eq_v", &full.v_is_k));
  SLUICE_RETURN_IF_ERROR(fields.Int("global_head_dim", kHeadDimRange, &full.head_dim));
  // Without "attention_k_eq_v" this key, though it may be there, counts for nothing.
  int kv_heads = 0;
  SLUICE_RETURN_IF_ERROR(fields.Int("num_global_key_value_heads", kHeadsRange, &kv_heads));
  if (full.v_is_k) full.kv_heads = kv_heads;
  // What transformers 5 writes instead of both keys.
  SLUICE_ASSIGN_OR_RETURN(const auto of_layers, fields.Object("per_layer_config"));
  for (size_t i = 0; i < config->layers.size(); ++i) {
    LayerConfig& layer = config->layers[i];
    if (layer.kind == LayerKind::kFull) {
      if (!of_layers) layer.head_dim = full.head_dim;
      if (!of_layers) layer.kv_heads = full.kv_heads;
      layer.v_is_k = full.v_is_k;
    }
    if (of_layers) SLUICE_RETURN_IF_ERROR(ReadLayer(*of_layers, i, &layer));
  }
  SLUICE_RETURN_IF_ERROR(CheckGemma4Kinds(*config));
  SLUICE_RETURN_IF_ERROR(ReadSharedKv(fields, config));
  SLUICE_RETURN_IF_ERROR(ReadExperts(fields, config));
  // Whole heads are rotated, those of some pairs by nothing.
  config->rope.rotary_dims = config->head_dim_of(config->layers.back());
  config->local_rope.rotary_dims = config->head_dim;
  for (const LayerConfig& layer : config->layers) {
    if (layer.kind == LayerKind::kWindow)
      config->local_rope.rotary_dims = config->head_dim_of(layer);
  }
  return OkStatus();
}

}  // namespace sluice::files
