#include "files/hf_lightning.h"

#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::files {

Status ReadHfLightning(const JsonFields& fields, ModelConfig* config) {
  if (config->activation != ActivationKind::kSilu) {
    return BadModel("the activation of a model with lightning attention must be silu");
  }
  if (fields.Has("sliding_window")) {
    return BadModel(
        "\"sliding_window\" is given; models with lightning attention that have windows are not "
        "supported");
  }
  float full = 1.0f, linear = 1.0f, mlp = 1.0f;
  SLUICE_RETURN_IF_ERROR(fields.Real("full_attn_alpha_factor", kFactorRange, &full));
  SLUICE_RETURN_IF_ERROR(fields.Real("linear_attn_alpha_factor", kFactorRange, &linear));
  SLUICE_RETURN_IF_ERROR(fields.Real("mlp_alpha_factor", kFactorRange, &mlp));
  for (const char* key : {"full_attn_beta_factor", "linear_attn_beta_factor", "mlp_beta_factor"}) {
    double beta = 1.0;
    SLUICE_RETURN_IF_ERROR(fields.Real(key, kFactorRange, &beta));
    if (beta != 1.0) {
      return BadModel(StrCat(Quote(key), " is ", beta, "; only 1 is supported"));
    }
  }
  for (LayerConfig& layer : config->layers) {
    const bool lightning = layer.kind == LayerKind::kLightning;
    layer.use_rope = !lightning;
    layer.mixer_residual = lightning ? linear : full;
    layer.mlp_residual = mlp;
  }
  config->linear = {.key_heads = config->num_heads,
                    .value_heads = config->num_heads,
                    .key_head_dim = config->head_dim,
                    .value_head_dim = config->head_dim};
  return OkStatus();
}

}  // namespace sluice::files
