#include "files/gguf_mamba.h"

#include <string>

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/config_check.h"
#include "files/gguf_short_conv.h"

namespace sluice::files {
namespace {

Status ReadInt(const GgufFile& file, const std::string& key, IntRange range, int* value) {
  SLUICE_ASSIGN_OR_RETURN(const auto number, file.Integer(key));
  if (!number) return BadModel(StrCat("the metadata key ", Quote(key), " is missing"));
  if (*number < range.min || *number > range.max) {
    return BadModel(
        StrCat(Quote(key), " is ", *number, "; ", range.min, " to ", range.max, " are legal"));
  }
  *value = static_cast<int>(*number);
  return OkStatus();
}

}  // namespace

Status ReadGgufMamba(const GgufFile& file, const ArchitectureInfo& info, ModelConfig* config) {
  const auto key = [&](const char* suffix) { return StrCat(info.gguf_name, ".", suffix); };
  LinearAttentionConfig& linear = config->linear;
  linear.mamba = true;
  int inner = 0;
  SLUICE_RETURN_IF_ERROR(
      ReadInt(file, key("ssm.conv_kernel"), kConvKernelRange, &linear.conv_kernel));
  SLUICE_RETURN_IF_ERROR(ReadInt(file, key("ssm.inner_size"), kHiddenRange, &inner));
  SLUICE_RETURN_IF_ERROR(
      ReadInt(file, key("ssm.state_size"), kLinearHeadDimRange, &linear.key_head_dim));
  SLUICE_RETURN_IF_ERROR(
      ReadInt(file, key("ssm.time_step_rank"), kHeadsRange, &linear.value_heads));
  SLUICE_RETURN_IF_ERROR(ReadInt(file, key("ssm.group_count"), kHeadsRange, &linear.key_heads));
  linear.value_head_dim = inner / linear.value_heads;
  if (inner % linear.value_heads != 0 || linear.value_head_dim > kLinearHeadDimRange.max) {
    return BadModel(StrCat(Quote(key("ssm.inner_size")), " is ", inner, ", which ",
                           linear.value_heads, " heads divide into none of at most ",
                           kLinearHeadDimRange.max));
  }
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
  SLUICE_ASSIGN_OR_RETURN(const auto experts, file.Integer(key("expert_count")));
  const std::string shared = key("expert_shared_feed_forward_length");
  if (experts.value_or(0) == 0 && file.metadata().contains(shared)) {
    // Without others the one that every token takes is the feed-forward part.
    SLUICE_RETURN_IF_ERROR(ReadInt(file, shared, kIntermediateRange, &config->intermediate_size));
  }
  // As llama.cpp has it: the key says whether there is RoPE at all.
  SLUICE_ASSIGN_OR_RETURN(const auto rope, file.Boolean(key("rope.scaling.finetuned")));
  for (LayerConfig& layer : config->layers) layer.use_rope = rope.value_or(false);
  if (rope.value_or(false) && config->rope.rotary_dims != config->head_dim) {
    // The converter has put rows in an order in which other pairs than those would be rotated.
    return BadModel(StrCat(Quote(key("rope.dimension_count")), " is ", config->rope.rotary_dims,
                           " of the ", config->head_dim, " dimensions of a head, which ",
                           info.gguf_name,
                           " models are not supported with; use the model's "
                           "Hugging Face checkpoint"));
  }
  return ReadGgufKvHeads(file, key("attention.head_count_kv"), LayerKind::kMamba, config);
}

}  // namespace sluice::files
