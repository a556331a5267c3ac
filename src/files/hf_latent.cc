#include "files/hf_latent.h"

#include <cmath>

#include "files/architectures.h"
#include "files/config_check.h"

namespace sluice::files {
namespace {

constexpr IntRange kRankRange{1, kHiddenRange.max};

}  // namespace

Status ReadHfLatent(const JsonFields& fields, ModelConfig* config) {
  LatentConfig latent = InfoOf(config->architecture).latent;
  if (fields.IsNull("q_lora_rank")) latent.q_rank = 0;
  SLUICE_RETURN_IF_ERROR(fields.Int("kv_lora_rank", kRankRange, &latent.kv_rank));
  SLUICE_RETURN_IF_ERROR(fields.Int("q_lora_rank", kRankRange, &latent.q_rank));
  SLUICE_RETURN_IF_ERROR(fields.Int("qk_nope_head_dim", kHeadDimRange, &latent.nope_dim));
  SLUICE_RETURN_IF_ERROR(fields.Int("qk_rope_head_dim", kHeadDimRange, &latent.rope_dim));
  SLUICE_RETURN_IF_ERROR(fields.Int("v_head_dim", kHeadDimRange, &latent.value_dim));
  bool bias = false;
  SLUICE_RETURN_IF_ERROR(fields.Bool("attention_bias", &bias));
  if (bias) {
    return BadModel("\"attention_bias\" is true, which latent attention does not support");
  }
  config->latent = latent;
  config->num_kv_heads = 1;
  config->head_dim = latent.nope_dim + latent.rope_dim;
  return OkStatus();
}

Status FinishHfLatent(const JsonFields& fields, ModelConfig* config) {
  RopeConfig& rope = config->rope;
  rope.rotary_dims = config->latent.rope_dim;
  SLUICE_RETURN_IF_ERROR(fields.Bool("rope_interleave", &rope.interleaved));
  if (rope.scaling == RopeScaling::kNone || !rope.mscale_all_dim || rope.factor <= 1.0f) {
    return OkStatus();
  }
  // Queries and keys are lengthened alike.
  const float stretch = 0.1f * *rope.mscale_all_dim * std::log(rope.factor) + 1.0f;
  config->attention_scale *= stretch * stretch;
  return OkStatus();
}

}  // namespace sluice::files
