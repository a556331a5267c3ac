#include "files/hf_scales.h"

#include <cmath>
#include <optional>
#include <vector>

#include "base/str_cat.h"
#include "base/visible.h"
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

// Factors of the list `key`, one for each of `factors`.
Status ReadFactors(const JsonFields& fields, std::string_view key,
                   std::initializer_list<float*> factors) {
  std::vector<float> values;
  SLUICE_RETURN_IF_ERROR(fields.Reals(key, kFactorRange, factors.size(), &values));
  if (values.empty() && !fields.Has(key)) return OkStatus();
  if (values.size() != factors.size()) {
    return BadModel(StrCat(Quote(key), " is a list of ", values.size(), " numbers; ",
                           factors.size(), " are needed"));
  }
  auto value = values.begin();
  for (float* factor : factors) *factor = *value++;
  return OkStatus();
}

// The residual stream is divided by what attention is multiplied by, so that its last product needs
// no factor, and that of the others is the rest.
Status ReadFalconH1Scales(const JsonFields& fields, ModelConfig* config) {
  float key = 1.0f, in = 1.0f, out = 1.0f, mamba_in = 1.0f;
  MambaScales& mamba = config->linear.scales;
  SLUICE_RETURN_IF_ERROR(
      fields.Real("embedding_multiplier", kFactorRange, &config->embedding_scale));
  SLUICE_RETURN_IF_ERROR(fields.Real("lm_head_multiplier", kFactorRange, &config->logit_scale));
  SLUICE_RETURN_IF_ERROR(fields.Real("key_multiplier", kFactorRange, &key));
  SLUICE_RETURN_IF_ERROR(fields.Real("attention_in_multiplier", kFactorRange, &in));
  SLUICE_RETURN_IF_ERROR(fields.Real("attention_out_multiplier", kFactorRange, &out));
  SLUICE_RETURN_IF_ERROR(fields.Real("ssm_in_multiplier", kFactorRange, &mamba_in));
  SLUICE_RETURN_IF_ERROR(fields.Real("ssm_out_multiplier", kFactorRange, &mamba.out));
  SLUICE_RETURN_IF_ERROR(
      ReadFactors(fields, "ssm_multipliers",
                  {&mamba.gate, &mamba.values, &mamba.keys, &mamba.queries, &mamba.dt}));
  SLUICE_RETURN_IF_ERROR(
      ReadFactors(fields, "mlp_multipliers", {&config->mlp_gate_scale, &config->mlp_inner_scale}));
  // Queries and keys are multiplied, and of the rest the values.
  config->attention_scale *= key * in * in;
  config->residual_scale = in * out;
  for (float* factor : {&mamba.gate, &mamba.values, &mamba.keys, &mamba.queries, &mamba.dt})
    *factor *= mamba_in;
  mamba.out /= config->residual_scale;
  config->mlp_inner_scale /= config->residual_scale;
  return OkStatus();
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
      if (config->architecture == Architecture::kGemma3n) config->logit_soft_cap = kGemma3nLogitCap;
      config->attention_scale = 1.0f;
      config->embedding_scale = std::sqrt(static_cast<float>(config->hidden_size));
      return ReadCap(fields, "final_logit_softcapping", &config->logit_soft_cap);
    case HfScales::kGranite:
      return ReadGraniteScales(fields, config);
    case HfScales::kFalconH1:
      return ReadFalconH1Scales(fields, config);
    case HfScales::kCohere:
      config->logit_scale = kCohereLogitScale;
      return fields.Real("logit_scale", kFactorRange, &config->logit_scale);
  }
  return OkStatus();
}

}  // namespace sluice::files
