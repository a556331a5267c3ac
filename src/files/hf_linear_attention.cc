#include "files/hf_linear_attention.h"

namespace sluice::files {
namespace {

// What transformers 5.23 takes for a key that is absent.
constexpr LinearAttentionConfig kDefaults = {.key_heads = 16,
                                             .value_heads = 32,
                                             .key_head_dim = 128,
                                             .value_head_dim = 128,
                                             .conv_kernel = 4};

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

Status CheckHfLinearModel(const JsonFields& fields, const ModelConfig& config) {
  bool bias = false;
  SLUICE_RETURN_IF_ERROR(fields.Bool("attention_bias", &bias));
  if (bias) {
    return BadModel(
        "\"attention_bias\" is true; models of this kind with biases are not supported");
  }
  if (config.activation != ActivationKind::kSilu) {
    return BadModel("the activation of a model with linear layers must be silu");
  }
  return OkStatus();
}

}  // namespace sluice::files
