#include "files/gguf_mamba.h"

#include <string>
#include <utility>
#include <vector>

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/config_check.h"
#include "files/gguf_short_conv.h"
#include "files/pattern_layers.h"

namespace sluice::files {
namespace {

// The sizes of Mamba, whose channels are one value head.
Status ReadFirstSizes(const GgufFields& fields, ModelConfig* config) {
  LinearAttentionConfig& linear = config->linear;
  linear.key_heads = linear.value_heads = 1;
  linear.gated_norm = false;
  SLUICE_RETURN_IF_ERROR(
      fields.RequiredInt("ssm.inner_size", kHiddenRange, &linear.value_head_dim));
  SLUICE_RETURN_IF_ERROR(fields.RequiredInt("ssm.time_step_rank", kHiddenRange, &linear.step_rank));
  linear.scan_norms = fields.info().scan_norms;
  linear.scan_norm_eps = config->norm_eps;
  SLUICE_ASSIGN_OR_RETURN(const auto norms, fields.file().Boolean(fields.Key("ssm.dt_b_c_rms")));
  if (norms.value_or(false)) linear.scan_norms = ScanNorms::kPlain;
  return OkStatus();
}

Status ReadSizes(const GgufFields& fields, ModelConfig* config) {
  LinearAttentionConfig& linear = config->linear;
  int inner = 0;
  SLUICE_RETURN_IF_ERROR(fields.RequiredInt("ssm.inner_size", kHiddenRange, &inner));
  SLUICE_RETURN_IF_ERROR(
      fields.RequiredInt("ssm.time_step_rank", kHeadsRange, &linear.value_heads));
  SLUICE_RETURN_IF_ERROR(fields.RequiredInt("ssm.group_count", kHeadsRange, &linear.key_heads));
  linear.value_head_dim = inner / linear.value_heads;
  if (inner % linear.value_heads == 0 && linear.value_head_dim <= kLinearHeadDimRange.max)
    return OkStatus();
  return BadModel(StrCat(Quote(fields.Key("ssm.inner_size")), " is ", inner, ", which ",
                         linear.value_heads, " heads divide into none of at most ",
                         kLinearHeadDimRange.max));
}

// Layers with KV heads have attention, those with a width are feed-forward parts, with experts
// where there is a router, and the others are of Mamba-2.
Status ReadPattern(const GgufFields& fields, ModelConfig* config) {
  std::vector<int> heads, widths;
  SLUICE_RETURN_IF_ERROR(fields.LayerInts("attention.head_count_kv", {0, kHeadsRange.max},
                                          config->num_layers, &heads));
  SLUICE_RETURN_IF_ERROR(fields.LayerInts("feed_forward_length", {0, kIntermediateRange.max},
                                          config->num_layers, &widths));
  if (heads.empty() || widths.empty()) {
    return BadModel(
        StrCat("the metadata key ",
               Quote(fields.Key(heads.empty() ? "attention.head_count_kv" : "feed_forward_length")),
               " is missing"));
  }
  // Heads that guess tokens come behind the layers, and are not used.
  int guessing = 0;
  SLUICE_RETURN_IF_ERROR(
      fields.Int("nextn_predict_layers", {0, config->num_layers - 1}, &guessing));
  std::vector<LayerConfig> layers;
  for (int i = 0; i < config->num_layers - guessing; ++i) {
    const int kv = heads[static_cast<size_t>(i)], width = widths[static_cast<size_t>(i)];
    if (width > 0 && kv == 0) {
      const bool experts = fields.file().Find(StrCat("blk.", i, ".ffn_gate_inp.weight")) != nullptr;
      SLUICE_RETURN_IF_ERROR(AddPatternMlp(i, experts, &layers));
      config->intermediate_size = width;
      continue;
    }
    AddPatternMixer(i, kv > 0 ? LayerKind::kFull : LayerKind::kMamba, &layers);
    if (kv > 0) config->num_kv_heads = layers.back().kv_heads = kv;
  }
  config->num_layers = static_cast<int>(layers.size());
  config->layers = std::move(layers);
  return OkStatus();
}

}  // namespace

Status ReadGgufMamba(const GgufFields& fields, ModelConfig* config) {
  const GgufFile& file = fields.file();
  const ArchitectureInfo& info = fields.info();
  LinearAttentionConfig& linear = config->linear;
  linear.mamba = true;
  SLUICE_RETURN_IF_ERROR(
      fields.RequiredInt("ssm.conv_kernel", kConvKernelRange, &linear.conv_kernel));
  SLUICE_RETURN_IF_ERROR(
      fields.RequiredInt("ssm.state_size", kLinearHeadDimRange, &linear.key_head_dim));
  SLUICE_RETURN_IF_ERROR(info.first_mamba ? ReadFirstSizes(fields, config)
                                          : ReadSizes(fields, config));
  for (int i = 0; i < config->num_layers; ++i) {
    const auto has = [&](const char* tensor) {
      return file.Find(StrCat("blk.", i, ".", tensor)) != nullptr;
    };
    linear.conv_bias = linear.conv_bias || has("ssm_conv1d.bias");
    linear.product_bias = linear.product_bias || has("ssm_in.bias");
  }
  if (info.layers == LayerRule::kMamba) {
    MakeMambaAlone(config);
    return OkStatus();
  }
  if (info.layers == LayerRule::kMambaBeside) {
    linear.gated_norm = file.Find("blk.0.ssm_norm.weight") != nullptr;
    MakeMambaBeside(config);
    return OkStatus();
  }
  if (info.layers == LayerRule::kMambaPattern) return ReadPattern(fields, config);
  if (info.layers == LayerRule::kMambaPeriodic) {
    for (LayerConfig& layer : config->layers) layer.use_rope = false;
    return ReadGgufKvHeads(fields, LayerKind::kMamba, config);
  }
  SLUICE_ASSIGN_OR_RETURN(const auto experts, file.Integer(fields.Key("expert_count")));
  const std::string shared = fields.Key("expert_shared_feed_forward_length");
  if (experts.value_or(0) == 0 && file.metadata().contains(shared)) {
    // Without others the one that every token takes is the feed-forward part.
    SLUICE_RETURN_IF_ERROR(fields.RequiredInt("expert_shared_feed_forward_length",
                                              kIntermediateRange, &config->intermediate_size));
  }
  // As llama.cpp has it: the key says whether there is RoPE at all.
  SLUICE_ASSIGN_OR_RETURN(const auto rope, file.Boolean(fields.Key("rope.scaling.finetuned")));
  for (LayerConfig& layer : config->layers) layer.use_rope = rope.value_or(false);
  if (rope.value_or(false) && config->rope.rotary_dims != config->head_dim) {
    // The converter has put rows in an order in which other pairs than those would be rotated.
    return BadModel(StrCat(Quote(fields.Key("rope.dimension_count")), " is ",
                           config->rope.rotary_dims, " of the ", config->head_dim,
                           " dimensions of a head, which ", info.gguf_name,
                           " models are not supported with; use the model's "
                           "Hugging Face checkpoint"));
  }
  return ReadGgufKvHeads(fields, LayerKind::kMamba, config);
}

}  // namespace sluice::files
