#include "files/gguf_positions.h"

#include <string>

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/alibi.h"
#include "files/config_check.h"
#include "files/published_values.h"

namespace sluice::files {
namespace {

// Llama 4 in GGUF, where the file does not say: the experts of Maverick, whose heads of Q and K
// have no norms.
constexpr int kLlama4ExpertsWithoutNorms = 128;
// Baichuan's published sizes: 40 layers have ALiBi, 32 have RoPE.
constexpr int kBaichuanAlibiLayers = 40;

// A window of 0 tells that all layers see everything and rotate.
void ReadChunks(const ArchitectureInfo& info, bool none, ModelConfig* config) {
  if (config->experts.count == kLlama4ExpertsWithoutNorms) config->qk_norm = QkNormKind::kNone;
  if (none) return;
  config->chunked_window = true;
  config->sliding_window = info.hf_defaults.window;
  config->growth_tokens = kLlama4GrowthTokens;
  config->growth_scale = kLlama4GrowthScale;
  const auto period = static_cast<size_t>(info.window_period);
  for (size_t i = 0; i < config->layers.size(); ++i) {
    LayerConfig& layer = config->layers[i];
    layer.use_rope = (i + 1) % period != 0;
    layer.kind = layer.use_rope ? LayerKind::kWindow : LayerKind::kFull;
  }
}

}  // namespace

Status ReadGgufPositions(const GgufFields& fields, ModelConfig* config) {
  const GgufFile& file = fields.file();
  const ArchitectureInfo& info = fields.info();
  if (info.position_table) config->position_rows = config->context_length;
  if (info.layers == LayerRule::kPeriodicChunks) {
    SLUICE_ASSIGN_OR_RETURN(const auto window,
                            file.Integer(fields.Key("attention.sliding_window")));
    ReadChunks(info, window == 0, config);
  }
  SLUICE_ASSIGN_OR_RETURN(const auto clamp, file.Number(fields.Key("attention.clamp_kqv")));
  if (clamp.value_or(0.0) != 0.0) {
    return BadModel(StrCat(Quote(fields.Key("attention.clamp_kqv")), " is ", *clamp,
                           "; models that clip Q, K and V are not supported"));
  }
  switch (info.alibi) {
    case AlibiRule::kNever:
    case AlibiRule::kSwitched:  // llama.cpp's converter knows no such model
      return OkStatus();
    case AlibiRule::kAlways:
      UseAlibi(kAlibiBiasMax, 1.0f, config);
      return OkStatus();
    case AlibiRule::kAttnConfig: {
      SLUICE_ASSIGN_OR_RETURN(const auto most, file.Number(fields.Key("attention.max_alibi_bias")));
      const double bias_max = most.value_or(0.0);
      if (!(bias_max >= kAlibiBiasMaxRange.min && bias_max <= kAlibiBiasMaxRange.max) ||
          file.Find("position_embd.weight") != nullptr) {
        return BadModel(StrCat(Quote(fields.Key("attention.max_alibi_bias")), " is ", bias_max,
                               "; models of the architecture ", info.gguf_name,
                               " are supported with ALiBi alone, from ", kAlibiBiasMaxRange.min,
                               " to ", kAlibiBiasMaxRange.max));
      }
      UseAlibi(static_cast<float>(bias_max), 1.0f, config);
      return OkStatus();
    }
    case AlibiRule::kBySize:
      if (config->num_layers == kBaichuanAlibiLayers) UseAlibi(kAlibiBiasMax, 1.0f, config);
      return OkStatus();
  }
  return OkStatus();
}

}  // namespace sluice::files
