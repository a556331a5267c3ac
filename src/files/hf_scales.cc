#include "files/hf_scales.h"

#include <cmath>
#include <optional>

#include "files/config_check.h"
#include "files/published_values.h"

namespace sluice::files {
namespace {

constexpr float kGemmaQueryScalar = 256.0f;
constexpr float kCohereLogitScale = 0.0625f;

// null stands for "no cap".
Status ReadCap(const JsonFields& fields, std::string_view key, std::optional<float>* cap) {
  if (fields.IsNull(key)) cap->reset();
  return fields.Real(key, kSoftCapRange, cap);
}

Status ReadGraniteScales(const JsonFields& fields, ModelConfig* config) {
  float divisor = 1.0f;
  config->attention_scale = 1.0f;
  SLUICE_RETURN_IF_ERROR(
      fields.Real("embedding_multiplier", kFactorRange, &config->embedding_scale));
  SLUICE_RETURN_IF_ERROR(
      fields.Real("attention_multiplier", kAttentionScaleRange, &config->attention_scale));
  SLUICE_RETURN_IF_ERROR(fields.Real("residual_multiplier", kFactorRange, &config->residual_scale));
  SLUICE_RETURN_IF_ERROR(fields.Real("logits_scaling", kFactorRange, &divisor));
  config->logit_scale = 1.0f / divisor;
  return OkStatus();
}

Status ReadGemmaScales(const JsonFields& fields, ModelConfig* config) {
  float scalar = kGemmaQueryScalar;
  SLUICE_RETURN_IF_ERROR(fields.Real("query_pre_attn_scalar", {1e-3, 1e6}, &scalar));
  config->attention_scale = 1.0f / std::sqrt(scalar);
  config->embedding_scale = std::sqrt(static_cast<float>(config->hidden_size));
  if (config->architecture == Architecture::kGemma2) {
    config->attention_soft_cap = kGemma2AttentionCap;
    config->logit_soft_cap = kGemma2LogitCap;
  }
  SLUICE_RETURN_IF_ERROR(ReadCap(fields, "attn_logit_softcapping", &config->attention_soft_cap));
  return ReadCap(fields, "final_logit_softcapping", &config->logit_soft_cap);
}

}  // namespace

Status ReadHfScales(const JsonFields& fields, const ArchitectureInfo& info, ModelConfig* config) {
  config->attention_scale = 1.0f / std::sqrt(static_cast<float>(config->head_dim));
  switch (info.hf_scales) {
    case HfScales::kNone:
      return OkStatus();
    case HfScales::kGemma:
      return ReadGemmaScales(fields, config);
    case HfScales::kGemma4:
      config->attention_scale = 1.0f;
      config->embedding_scale = std::sqrt(static_cast<float>(config->hidden_size));
      return ReadCap(fields, "final_logit_softcapping", &config->logit_soft_cap);
    case HfScales::kGranite:
      return ReadGraniteScales(fields, config);
    case HfScales::kCohere:
      config->logit_scale = kCohereLogitScale;
      return fields.Real("logit_scale", kFactorRange, &config->logit_scale);
  }
  return OkStatus();
}

}  // namespace sluice::files
