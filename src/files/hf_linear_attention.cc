#include "files/hf_linear_attention.h"

#include <algorithm>

#include "base/str_cat.h"
#include "files/hf_experts.h"

namespace sluice::files {
namespace {

// What transformers 5.23 takes for a key that is absent.
constexpr LinearAttentionConfig kDefaults = {.key_heads = 16,
                                             .value_heads = 32,
                                             .key_head_dim = 128,
                                             .value_head_dim = 128,
                                             .conv_kernel = 4};
constexpr int kDefaultExperts = 512;
constexpr IntRange kManyExpertsRange{0, 1 << 20};

}  // namespace

Status ReadHfLinearAttention(const JsonFields& fields, ModelConfig* config) {
  LinearAttentionConfig& linear = config->linear;
  linear = kDefaults;
  SLUICE_RETURN_IF_ERROR(fields.Int("linear_num_key_heads", kHeadsRange, &linear.key_heads));
  SLUICE_RETURN_IF_ERROR(fields.Int("linear_num_value_heads", kHeadsRange, &linear.value_heads));
  SLUICE_RETURN_IF_ERROR(
      fields.Int("linear_key_head_dim", kLinearHeadDimRange, &linear.key_head_dim));
  SLUICE_RETURN_IF_ERROR(
      fields.Int("linear_value_head_dim", kLinearHeadDimRange, &linear.value_head_dim));
  return fields.Int("linear_conv_kernel_dim", kConvKernelRange, &linear.conv_kernel);
}

Status RefuseHfExperts(const JsonFields& fields, const ModelConfig& config) {
  bool bias = false;
  SLUICE_RETURN_IF_ERROR(fields.Bool("attention_bias", &bias));
  if (bias) {
    return BadModel("\"attention_bias\" is true; Qwen3-Next models with biases are not supported");
  }
  if (config.activation != ActivationKind::kSilu) {
    return BadModel("the activation of a Qwen3-Next model must be silu");
  }
  int experts = kDefaultExperts;
  SLUICE_RETURN_IF_ERROR(fields.Int("num_experts", kManyExpertsRange, &experts));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<bool> sparse, SparseLayers(fields, config.num_layers));
  if (experts == 0) return OkStatus();
  for (size_t layer = 0; layer < sparse.size(); ++layer) {
    if (!sparse[layer]) continue;
    return BadModel(StrCat("layer ", layer, " has ", experts,
                           " experts; Qwen3-Next models with experts are not supported"));
  }
  return OkStatus();
}

}  // namespace sluice::files
