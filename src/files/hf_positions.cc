#include "files/hf_positions.h"

#include <string>

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/alibi.h"
#include "files/config_check.h"
#include "files/published_values.h"

namespace sluice::files {
namespace {

constexpr RealRange kGrowthRange{0.0, 100.0};

// MPT's. What models of that form may have beside ALiBi and is not supported is refused.
Status ReadAttnConfig(const JsonFields& fields, ModelConfig* config) {
  SLUICE_ASSIGN_OR_RETURN(const auto attention, fields.Object("attn_config"));
  bool alibi = true, prefix = false, norms = false, positions = true;
  float bias_max = kAlibiBiasMax;
  std::string type = "multihead_attention";
  SLUICE_RETURN_IF_ERROR(fields.Bool("learned_pos_emb", &positions));
  if (attention) {
    SLUICE_RETURN_IF_ERROR(attention->Bool("alibi", &alibi));
    SLUICE_RETURN_IF_ERROR(attention->Bool("prefix_lm", &prefix));
    SLUICE_RETURN_IF_ERROR(attention->Bool("qk_ln", &norms));
    SLUICE_RETURN_IF_ERROR(attention->Text("attn_type", &type));
    SLUICE_RETURN_IF_ERROR(attention->Real("alibi_bias_max", kAlibiBiasMaxRange, &bias_max));
    SLUICE_RETURN_IF_ERROR(
        attention->Real("softmax_scale", kAttentionScaleRange, &config->attention_scale));
  }
  if (attention && attention->Has("clip_qkv")) {
    return BadModel("\"clip_qkv\" is given; models that clip Q, K and V are not supported");
  }
  if (!alibi || prefix || norms || type != "multihead_attention") {
    return BadModel(StrCat("\"attn_config\" has \"alibi\" ", alibi ? "true" : "false",
                           ", \"prefix_lm\" ", prefix ? "true" : "false", ", \"qk_ln\" ",
                           norms ? "true" : "false", " and \"attn_type\" ", Quote(type),
                           "; true, false, false and \"multihead_attention\" are supported"));
  }
  UseAlibi(bias_max, 1.0f, config);
  return OkStatus();
}

// "layer_types" must say what the RoPE of the layers does: those that rotate see chunks.
Status CheckTypes(const JsonFields& fields, ModelConfig* config) {
  const Json* types = fields.Find("layer_types");
  if (types == nullptr) return OkStatus();
  if (!types->is_array() || types->size() != config->layers.size()) {
    return BadModel(StrCat("\"layer_types\" is not a list of ", config->num_layers, " names"));
  }
  for (size_t i = 0; i < types->size(); ++i) {
    if ((*types)[i] != "chunked_attention" && (*types)[i] != "full_attention") {
      return BadModel(StrCat("\"layer_types\" gives layer ", i,
                             " another type than chunked_attention and full_attention"));
    }
    config->layers[i].kind =
        (*types)[i] == "full_attention" ? LayerKind::kFull : LayerKind::kWindow;
  }
  return OkStatus();
}

}  // namespace

Status ReadHfAlibi(const JsonFields& fields, const ArchitectureInfo& info, ModelConfig* config) {
  switch (info.alibi) {
    case AlibiRule::kNever:
      return OkStatus();
    case AlibiRule::kAlways:
      UseAlibi(kAlibiBiasMax, 1.0f, config);
      return OkStatus();
    case AlibiRule::kSwitched: {
      bool alibi = false;
      SLUICE_RETURN_IF_ERROR(fields.Bool("alibi", &alibi));
      if (alibi) UseAlibi(kAlibiBiasMax, config->attention_scale, config);
      return OkStatus();
    }
    case AlibiRule::kAttnConfig:
      return ReadAttnConfig(fields, config);
    case AlibiRule::kBySize:
      if (!fields.Has("max_position_embeddings")) UseAlibi(kAlibiBiasMax, 1.0f, config);
      return OkStatus();
  }
  return OkStatus();
}

Status ReadHfChunks(const JsonFields& fields, const ArchitectureInfo& info, ModelConfig* config) {
  int period = info.window_period;
  SLUICE_RETURN_IF_ERROR(fields.Int("no_rope_layer_interval", kLayersRange, &period));
  std::vector<int> use_rope;
  SLUICE_RETURN_IF_ERROR(fields.Ids("no_rope_layers", {0, 1}, &use_rope));
  if (!use_rope.empty() && use_rope.size() < config->layers.size()) {
    return BadModel(StrCat("\"no_rope_layers\" has ", use_rope.size(), " items for ",
                           config->num_layers, " layers"));
  }
  config->chunked_window = true;
  config->sliding_window = fields.IsNull("attention_chunk_size") ? 0 : info.hf_defaults.window;
  SLUICE_RETURN_IF_ERROR(
      fields.Int("attention_chunk_size", kContextRange, &config->sliding_window));
  for (size_t i = 0; i < config->layers.size(); ++i) {
    LayerConfig& layer = config->layers[i];
    layer.use_rope =
        use_rope.empty() ? (i + 1) % static_cast<size_t>(period) != 0 : use_rope[i] == 1;
    layer.kind = layer.use_rope ? LayerKind::kWindow : LayerKind::kFull;
  }
  SLUICE_RETURN_IF_ERROR(CheckTypes(fields, config));
  if (config->sliding_window == 0) {
    for (LayerConfig& layer : config->layers) layer.kind = LayerKind::kFull;
  }
  bool grows = true;
  SLUICE_RETURN_IF_ERROR(fields.Bool("attn_temperature_tuning", &grows));
  if (!grows) return OkStatus();
  config->growth_tokens = kLlama4GrowthTokens;
  config->growth_scale = kLlama4GrowthScale;
  SLUICE_RETURN_IF_ERROR(fields.Int("floor_scale", kContextRange, &config->growth_tokens));
  return fields.Real("attn_scale", kGrowthRange, &config->growth_scale);
}

}  // namespace sluice::files
