#include "files/gguf_rope.h"

#include <cmath>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/published_values.h"

namespace sluice::files {
namespace {

Status ReadYarn(const GgufFields& fields, ModelConfig* config) {
  RopeConfig& rope = config->rope;
  std::optional<float> fast, slow, extra;
  rope.truncate = config->architecture != Architecture::kGptOss;  // which the file does not say
  constexpr RealRange kBetaRange{1e-3, 1e4};
  SLUICE_RETURN_IF_ERROR(fields.Real("rope.scaling.yarn_beta_fast", kBetaRange, &fast));
  SLUICE_RETURN_IF_ERROR(fields.Real("rope.scaling.yarn_beta_slow", kBetaRange, &slow));
  rope.beta_fast = fast.value_or(rope.beta_fast);
  rope.beta_slow = slow.value_or(rope.beta_slow);
  constexpr RealRange kAttentionFactorRange{1e-3, 1e3};
  SLUICE_RETURN_IF_ERROR(
      fields.Real("rope.scaling.yarn_attn_factor", kAttentionFactorRange, &rope.attention_factor));
  SLUICE_RETURN_IF_ERROR(fields.Cap("rope.scaling.yarn_log_multiplier", &rope.mscale_all_dim));
  if (rope.mscale_all_dim) rope.mscale = 1.0f;
  // A factor on top of YaRN's own.
  SLUICE_RETURN_IF_ERROR(fields.Real("rope.scaling.attn_factor", kAttentionFactorRange, &extra));
  if (extra && *extra != 1.0f) {
    const float own = rope.factor <= 1.0f ? 1.0f : 0.1f * std::log(rope.factor) + 1.0f;
    rope.attention_factor = rope.attention_factor.value_or(own) * *extra;
  }
  return OkStatus();
}

Status ReadScaling(const GgufFields& fields, ModelConfig* config) {
  RopeConfig& rope = config->rope;
  std::optional<float> factor;
  for (const char* suffix : {"rope.scale_linear", "rope.scaling.factor"}) {
    SLUICE_ASSIGN_OR_RETURN(const auto number, fields.file().Number(fields.Key(suffix)));
    if (number && *number == 0.0) continue;  // "none"
    SLUICE_RETURN_IF_ERROR(fields.Real(suffix, kRopeFactorRange, &factor));
  }
  rope.factor = factor.value_or(1.0f);
  SLUICE_ASSIGN_OR_RETURN(const auto type, fields.file().String(fields.Key("rope.scaling.type")));
  const std::string_view name = type ? std::string_view(*type) : std::string_view("linear");
  if (name == "linear") {
    if (rope.factor != 1.0f) rope.scaling = RopeScaling::kLinear;
  } else if (name == "yarn") {
    rope.scaling = RopeScaling::kYarn;
    return ReadYarn(fields, config);
  } else if (name == "none") {
    rope.factor = 1.0f;
  } else if (name != "longrope") {  // longrope is what its tensors say
    return BadModel(StrCat(Quote(fields.Key("rope.scaling.type")), " is ", Quote(name),
                           "; none, linear, yarn and longrope are supported"));
  }
  return OkStatus();
}

Result<std::vector<float>> ReadFactors(const FileTensor& tensor) {
  if (tensor.dtype != DType::kF32 || tensor.shape.size() != 1 ||
      tensor.shape[0] > kHeadDimRange.max) {
    return BadModel(StrCat("the tensor ", Quote(tensor.name), " is not a list of at most ",
                           kHeadDimRange.max, " F32 values"));
  }
  std::vector<float> factors(static_cast<size_t>(tensor.shape[0]));
  std::memcpy(factors.data(), tensor.data.data(), tensor.data.size());
  return factors;
}

Status ReadFactorTensors(const GgufFields& fields, ModelConfig* config) {
  RopeConfig& rope = config->rope;
  if (const FileTensor* tensor = fields.file().Find("rope_freqs.weight")) {
    SLUICE_ASSIGN_OR_RETURN(rope.frequency_factors, ReadFactors(*tensor));
  }
  const FileTensor* longer = fields.file().Find("rope_factors_long.weight");
  const FileTensor* shorter = fields.file().Find("rope_factors_short.weight");
  if (!longer && !shorter) return OkStatus();
  if (!longer || !shorter) {
    return BadModel(
        "of the tensors \"rope_factors_long.weight\" and \"rope_factors_short.weight\" one is "
        "missing");
  }
  SLUICE_ASSIGN_OR_RETURN(rope.long_factor, ReadFactors(*longer));
  SLUICE_ASSIGN_OR_RETURN(rope.short_factor, ReadFactors(*shorter));
  rope.scaling = RopeScaling::kLongRope;
  rope.factor = static_cast<float>(config->context_length) / rope.original_context;
  return fields.Real("rope.scaling.attn_factor", {1e-3, 1e3}, &rope.attention_factor);
}

}  // namespace

Status ReadGgufRope(const GgufFields& fields, ModelConfig* config) {
  RopeConfig& rope = config->rope;
  rope.rotary_dims = config->head_dim;
  SLUICE_RETURN_IF_ERROR(fields.Int("rope.dimension_count", kHeadDimRange, &rope.rotary_dims));
  std::optional<float> theta;
  SLUICE_RETURN_IF_ERROR(fields.Real("rope.freq_base", kThetaRange, &theta));
  rope.theta = theta.value_or(rope.theta);
  rope.original_context = config->context_length;
  SLUICE_RETURN_IF_ERROR(
      fields.Int("rope.scaling.original_context_length", kContextRange, &rope.original_context));
  SLUICE_RETURN_IF_ERROR(ReadScaling(fields, config));
  SLUICE_RETURN_IF_ERROR(ReadFactorTensors(fields, config));
  // Gemma 3 declares the length after its linear scaling.
  if (config->architecture != Architecture::kGemma3) {
    config->context_length = ScaledContext(rope, config->context_length);
  }
  return OkStatus();
}

Status ReadGgufLocalRope(const GgufFields& fields, ModelConfig* config) {
  std::optional<float> theta;
  SLUICE_RETURN_IF_ERROR(fields.Real("rope.freq_base_swa", kThetaRange, &theta));
  config->local_rope.theta = theta.value_or(kLocalTheta);
  config->local_rope.rotary_dims = config->rope.rotary_dims;
  config->local_rope.interleaved = config->rope.interleaved;
  for (LayerConfig& layer : config->layers) layer.local_rope = layer.kind == LayerKind::kWindow;
  return OkStatus();
}

}  // namespace sluice::files
