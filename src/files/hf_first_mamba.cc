#include "files/hf_first_mamba.h"

#include <string>

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/config_check.h"

namespace sluice::files {
namespace {

constexpr IntRange kFirstExpandRange{1, 64};
constexpr int kStateSize = 16, kKernel = 4, kExpand = 2;
constexpr int kHiddenOfRank = 16;  // numbers of the hidden state for one of the latent of steps

// What config.json calls the sizes.
struct FirstKeys {
  const char *state, *kernel, *conv_bias, *bias, *expand, *rank;
};
constexpr FirstKeys kFirstOwnKeys = {"state_size", "conv_kernel", "use_conv_bias",
                                     "use_bias",   "expand",      "time_step_rank"};
constexpr FirstKeys kFirstHybridKeys = {"mamba_d_state",   "mamba_d_conv", "mamba_conv_bias",
                                        "mamba_proj_bias", "mamba_expand", "mamba_dt_rank"};

Status ReadSizes(const JsonFields& fields, const FirstKeys& keys, bool own, ModelConfig* config) {
  LinearAttentionConfig& linear = config->linear;
  linear = {.key_heads = 1,
            .value_heads = 1,
            .key_head_dim = kStateSize,
            .conv_kernel = kKernel,
            .mamba = true,
            .conv_bias = true,
            .gated_norm = false};
  int expand = kExpand;
  SLUICE_RETURN_IF_ERROR(fields.Int(keys.state, kLinearHeadDimRange, &linear.key_head_dim));
  SLUICE_RETURN_IF_ERROR(fields.Int(keys.kernel, kConvKernelRange, &linear.conv_kernel));
  SLUICE_RETURN_IF_ERROR(fields.Bool(keys.conv_bias, &linear.conv_bias));
  SLUICE_RETURN_IF_ERROR(fields.Bool(keys.bias, &linear.product_bias));
  SLUICE_RETURN_IF_ERROR(fields.Int(keys.expand, kFirstExpandRange, &expand));
  int64_t width = int64_t{expand} * config->hidden_size;
  // Where a file of Mamba alone tells it, it is as told: those of Falcon Mamba expand by another.
  if (own && fields.Has("intermediate_size")) width = config->intermediate_size;
  if (width > kHiddenRange.max) {
    return BadModel(StrCat(Quote(keys.expand), " is ", expand, ", which makes ", width,
                           " channels of ", config->hidden_size, "; at most ", kHiddenRange.max,
                           " are legal"));
  }
  linear.value_head_dim = static_cast<int>(width);
  linear.step_rank = (config->hidden_size + kHiddenOfRank - 1) / kHiddenOfRank;
  const Json* rank = fields.Find(keys.rank);
  if (rank != nullptr && rank->is_string() && *rank == "auto") return OkStatus();
  return fields.Int(keys.rank, kHiddenRange, &linear.step_rank);
}

// Every so many layers, the first behind so many.
struct Period {
  const char *period_key, *offset_key;
  int period, offset;
  bool Has(int layer) const { return layer % period == offset; }
};

Status ReadPeriod(const JsonFields& fields, Period* period) {
  SLUICE_RETURN_IF_ERROR(fields.Int(period->period_key, kLayersRange, &period->period));
  SLUICE_RETURN_IF_ERROR(fields.Int(period->offset_key, {0, kLayersRange.max}, &period->offset));
  if (period->offset < period->period) return OkStatus();
  return BadModel(StrCat(Quote(period->offset_key), " is ", period->offset, "; it must be below ",
                         Quote(period->period_key), ", which is ", period->period));
}

Status ReadLayers(const JsonFields& fields, const ArchitectureInfo& info, ModelConfig* config) {
  Period attention = {"attn_layer_period", "attn_layer_offset", 8, 4};
  Period experts = {"expert_layer_period", "expert_layer_offset", 2, 1};
  int count = info.hf_defaults.experts;
  SLUICE_RETURN_IF_ERROR(ReadPeriod(fields, &attention));
  SLUICE_RETURN_IF_ERROR(ReadPeriod(fields, &experts));
  for (const char* key : {"num_local_experts", "num_experts"})
    SLUICE_RETURN_IF_ERROR(fields.Int(key, kExpertsRange, &count));
  for (int i = 0; i < config->num_layers; ++i) {
    LayerConfig& layer = config->layers[static_cast<size_t>(i)];
    layer.use_rope = false;
    if (!attention.Has(i)) layer.kind = LayerKind::kMamba;
    // One expert is a feed-forward part without a router.
    layer.experts = count > 1 && experts.Has(i);
  }
  return OkStatus();
}

}  // namespace

Status ReadHfFirstMamba(const JsonFields& fields, const ArchitectureInfo& info,
                        ModelConfig* config) {
  if (config->activation != ActivationKind::kSilu)
    return BadModel("the activation of a model with layers of Mamba must be silu");
  const bool own = info.layers == LayerRule::kMamba;
  SLUICE_RETURN_IF_ERROR(ReadSizes(fields, own ? kFirstOwnKeys : kFirstHybridKeys, own, config));
  LinearAttentionConfig& linear = config->linear;
  linear.scan_norms = info.scan_norms;
  if (!own) {
    linear.scan_norm_eps = config->norm_eps;
    return ReadLayers(fields, info, config);
  }
  SLUICE_RETURN_IF_ERROR(fields.Real("mixer_rms_eps", kNormEpsRange, &linear.scan_norm_eps));
  MakeMambaAlone(config);
  return OkStatus();
}

}  // namespace sluice::files
