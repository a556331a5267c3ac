#include "files/hf_short_conv.h"

#include "base/str_cat.h"

namespace sluice::files {
namespace {

constexpr IntRange kMultipleRange{1, kIntermediateRange.max};

// Two thirds, as a gated feed-forward part has three matrices instead of two, times a factor, up to
// the next multiple.
Status ShrinkFeedForward(const JsonFields& fields, ModelConfig* config) {
  bool adjusts = true;
  SLUICE_RETURN_IF_ERROR(fields.Bool("block_auto_adjust_ff_dim", &adjusts));
  if (!adjusts) return OkStatus();
  int multiple = 256;
  double factor = 1.0;
  SLUICE_RETURN_IF_ERROR(fields.Int("block_multiple_of", kMultipleRange, &multiple));
  SLUICE_RETURN_IF_ERROR(fields.Real("block_ffn_dim_multiplier", kFactorRange, &factor));
  const int64_t narrow = int64_t{2} * config->intermediate_size / 3;
  const auto wanted = static_cast<int64_t>(factor * static_cast<double>(narrow));
  const int64_t width = (wanted + multiple - 1) / multiple * multiple;
  if (width < kIntermediateRange.min || width > kIntermediateRange.max) {
    return BadModel(StrCat("the feed-forward part of ", config->intermediate_size,
                           " times \"block_ffn_dim_multiplier\" ", factor, " is ", width, " wide; ",
                           kIntermediateRange.min, " to ", kIntermediateRange.max, " are legal"));
  }
  config->intermediate_size = static_cast<int>(width);
  return OkStatus();
}

}  // namespace

Status ReadHfShortConv(const JsonFields& fields, const ArchitectureInfo& info,
                       ModelConfig* config) {
  config->short_conv.kernel = 3;
  SLUICE_RETURN_IF_ERROR(fields.Int("conv_L_cache", kConvKernelRange, &config->short_conv.kernel));
  SLUICE_RETURN_IF_ERROR(fields.Bool("conv_bias", &config->short_conv.bias));
  // What older files say instead of "tie_word_embeddings".
  SLUICE_RETURN_IF_ERROR(fields.Bool("tie_embedding", &config->tied_embeddings));
  return info.feed_forward_shrinks ? ShrinkFeedForward(fields, config) : OkStatus();
}

Status ReadHfAttentionLayers(const JsonFields& fields, ModelConfig* config) {
  if (!fields.Has("full_attn_idxs")) return OkStatus();
  std::vector<int> attention;
  SLUICE_RETURN_IF_ERROR(fields.Ids("full_attn_idxs", {0, config->num_layers - 1}, &attention));
  for (LayerConfig& layer : config->layers) layer.kind = LayerKind::kShortConv;
  for (const int i : attention) {
    config->layers[static_cast<size_t>(i)].kind = LayerKind::kFull;
  }
  return OkStatus();
}

}  // namespace sluice::files
