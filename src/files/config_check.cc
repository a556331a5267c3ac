#include "files/config_check.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/str_cat.h"

namespace sluice::files {
namespace {

// The list of a model's RoPE factors: `name` is what the file calls it.
Status CheckFactors(std::string_view name, const std::vector<float>& factors, int rotary_dims) {
  if (factors.size() != static_cast<size_t>(rotary_dims / 2)) {
    return BadModel(StrCat(name, " has ", factors.size(), " values; half of the ", rotary_dims,
                           " rotated dimensions, ", rotary_dims / 2, ", are needed"));
  }
  for (float factor : factors) {
    if (!(factor >= 1e-6f && factor <= 1e6f)) {
      return BadModel(StrCat(name, " holds ", factor, "; values from 1e-6 to 1e6 are legal"));
    }
  }
  return OkStatus();
}

Status CheckRope(const RopeConfig& rope, int head_dim) {
  if (rope.rotary_dims < 2 || rope.rotary_dims > head_dim || rope.rotary_dims % 2 != 0) {
    return BadModel(StrCat("RoPE rotates ", rope.rotary_dims, " of ", head_dim,
                           " dimensions of a head; an even number from 2 to ", head_dim,
                           " is legal"));
  }
  if (!rope.frequency_factors.empty()) {
    SLUICE_RETURN_IF_ERROR(
        CheckFactors("the tensor rope_freqs", rope.frequency_factors, rope.rotary_dims));
  }
  if (rope.scaling == RopeScaling::kLongRope) {
    SLUICE_RETURN_IF_ERROR(
        CheckFactors("LongRoPE's short factor", rope.short_factor, rope.rotary_dims));
    SLUICE_RETURN_IF_ERROR(
        CheckFactors("LongRoPE's long factor", rope.long_factor, rope.rotary_dims));
  }
  const bool needs_original =
      rope.scaling == RopeScaling::kDynamicNtk || rope.scaling == RopeScaling::kYarn ||
      rope.scaling == RopeScaling::kLlama3 || rope.scaling == RopeScaling::kLongRope;
  if (needs_original && rope.original_context < 1) {
    return BadModel(StrCat("RoPE scaling needs the context it was first trained with, not ",
                           rope.original_context));
  }
  if (rope.scaling == RopeScaling::kDynamicNtk && rope.rotary_dims < 4) {
    return BadModel("dynamic RoPE scaling needs at least 4 rotated dimensions");
  }
  if (rope.scaling == RopeScaling::kLongRope && rope.original_context < 2) {
    return BadModel("LongRoPE needs an original context of at least 2");
  }
  if (rope.scaling == RopeScaling::kLlama3 && !(rope.high_freq_factor > rope.low_freq_factor)) {
    return BadModel(StrCat("RoPE's high_freq_factor ", rope.high_freq_factor,
                           " must be above its low_freq_factor ", rope.low_freq_factor));
  }
  if (rope.scaling == RopeScaling::kYarn && !(rope.beta_fast >= rope.beta_slow)) {
    return BadModel(StrCat("YaRN's beta_fast ", rope.beta_fast, " must not be below its beta_slow ",
                           rope.beta_slow));
  }
  return OkStatus();
}

Status CheckHeads(int heads, int kv_heads, int head_dim) {
  if (kv_heads > heads || heads % kv_heads != 0) {
    return BadModel(
        StrCat(heads, " attention heads cannot be shared evenly by ", kv_heads, " KV heads"));
  }
  if (head_dim < kHeadDimRange.min || head_dim > kHeadDimRange.max) {
    return BadModel(StrCat("a head has ", head_dim, " dimensions; ", kHeadDimRange.min, " to ",
                           kHeadDimRange.max, " are legal"));
  }
  return OkStatus();
}

Status CheckHeads(const ModelConfig& config) {
  SLUICE_RETURN_IF_ERROR(CheckHeads(config.num_heads, config.num_kv_heads, config.head_dim));
  for (const LayerConfig& layer : config.layers) {
    SLUICE_RETURN_IF_ERROR(
        CheckHeads(config.num_heads, config.kv_heads_of(layer), config.head_dim_of(layer)));
  }
  return OkStatus();
}

// Of the layers that rotate by the model's RoPE, or by the local one.
int RotatedHeadDim(const ModelConfig& config, bool local) {
  for (const LayerConfig& layer : config.layers) {
    if (layer.use_rope && layer.local_rope == local) return config.head_dim_of(layer);
  }
  return config.head_dim;
}

Status CheckLayers(const ModelConfig& config) {
  if (config.layers.size() != static_cast<size_t>(config.num_layers)) {
    return BadModel(StrCat("the kinds of ", config.layers.size(),
                           " layers are given, but there are ", config.num_layers));
  }
  const bool any_window = std::any_of(config.layers.begin(), config.layers.end(),
                                      [](const auto& l) { return l.kind == LayerKind::kWindow; });
  if (any_window && config.sliding_window < 1) {
    return BadModel(StrCat("layers use a sliding window of ", config.sliding_window,
                           " tokens; at least 1 is needed"));
  }
  return OkStatus();
}

Status CheckLinear(const ModelConfig& config) {
  const bool any_linear = std::any_of(
      config.layers.begin(), config.layers.end(),
      [](const auto& l) { return HasState(l.kind) && l.kind != LayerKind::kShortConv; });
  if (!any_linear) return OkStatus();
  const LinearAttentionConfig& linear = config.linear;
  if (linear.key_heads < 1 || linear.value_heads % linear.key_heads != 0) {
    return BadModel(StrCat(linear.value_heads,
                           " value heads of a linear layer cannot be shared evenly by ",
                           linear.key_heads, " key heads"));
  }
  const int64_t numbers = int64_t{linear.value_width()} * linear.key_head_dim;
  if (numbers > kLayerStateMax) {
    return BadModel(StrCat("the state of a linear layer has ", numbers, " numbers; at most ",
                           kLayerStateMax, " are legal"));
  }
  return OkStatus();
}

Status CheckExperts(const ModelConfig& config) {
  const ExpertsConfig& experts = config.experts;
  if (experts.count == 0) return OkStatus();
  if (experts.count % experts.groups != 0 || experts.groups_kept > experts.groups) {
    return BadModel(StrCat("a token takes experts of ", experts.groups_kept, " of ", experts.groups,
                           " groups of ", experts.count,
                           "; equally large groups, of which some are taken, are legal"));
  }
  const int open = experts.count / experts.groups * experts.groups_kept;
  if (experts.per_token <= open) return OkStatus();
  return BadModel(StrCat("a token takes ", experts.per_token, " experts of ", open,
                         "; at most as many as there are is legal"));
}

}  // namespace

Status FinishConfig(ModelConfig* config) {
  SLUICE_RETURN_IF_ERROR(CheckHeads(*config));
  SLUICE_RETURN_IF_ERROR(CheckLayers(*config));
  SLUICE_RETURN_IF_ERROR(CheckLinear(*config));
  SLUICE_RETURN_IF_ERROR(CheckExperts(*config));
  const bool any_rope = std::any_of(config->layers.begin(), config->layers.end(),
                                    [](const auto& layer) { return layer.use_rope; });
  if (any_rope) SLUICE_RETURN_IF_ERROR(CheckRope(config->rope, RotatedHeadDim(*config, false)));
  const bool any_local = std::any_of(config->layers.begin(), config->layers.end(),
                                     [](const auto& layer) { return layer.local_rope; });
  if (any_local)
    SLUICE_RETURN_IF_ERROR(CheckRope(config->local_rope, RotatedHeadDim(*config, true)));
  if (!(config->attention_scale >= kAttentionScaleRange.min &&
        config->attention_scale <= kAttentionScaleRange.max)) {
    return BadModel(StrCat("the scale of attention scores is ", config->attention_scale, "; ",
                           kAttentionScaleRange.min, " to ", kAttentionScaleRange.max,
                           " are legal"));
  }
  std::vector<int>& ids = config->eos_ids;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  std::erase_if(ids, [&](int id) { return id >= config->vocab_size; });
  if (config->bos_id && *config->bos_id >= config->vocab_size) config->bos_id.reset();
  return OkStatus();
}

void MakeMambaAlone(ModelConfig* config) {
  config->intermediate_size = 0;
  config->num_heads = config->num_kv_heads = 1;
  config->head_dim = config->rope.rotary_dims = static_cast<int>(kHeadDimRange.min);
  for (LayerConfig& layer : config->layers) {
    layer.kind = LayerKind::kMamba;
    layer.use_rope = layer.mlp = false;
  }
}

void MakeMambaBeside(ModelConfig* config) {
  config->layers.clear();
  for (int i = 0; i < config->num_layers; ++i) {
    LayerConfig& mamba = config->layers.emplace_back();
    mamba.kind = LayerKind::kMamba;
    mamba.mlp = mamba.use_rope = false;
    mamba.stored = i;
    config->layers.emplace_back().stored = i;
  }
  config->num_layers *= 2;
}

Status RefuseNormalizedHead(const ModelConfig& config, int normalized_head_vocab) {
  if (normalized_head_vocab == 0 || config.vocab_size != normalized_head_vocab) return OkStatus();
  return BadModel(StrCat("a vocabulary of ", config.vocab_size,
                         " tells Baichuan 2, whose output matrix has to be normalized, which is "
                         "not supported; Baichuan 1 is"));
}

int ScaledContext(const RopeConfig& rope, int declared) {
  double scaled = declared;
  if (rope.scaling == RopeScaling::kLinear || rope.scaling == RopeScaling::kDynamicNtk) {
    scaled = declared * static_cast<double>(rope.factor);
  } else if (rope.scaling == RopeScaling::kYarn) {
    scaled = rope.original_context * static_cast<double>(rope.factor);
  }
  const double longest = std::min(scaled, static_cast<double>(kContextRange.max));
  return std::max(declared, static_cast<int>(std::lround(longest)));
}

DType MostCommonDType(const std::vector<FileTensor>& tensors) {
  std::array<double, kDTypeCount> elements = {};
  for (const FileTensor& tensor : tensors) {
    double count = 1.0;
    for (int64_t dim : tensor.shape) count *= static_cast<double>(dim);
    elements[static_cast<size_t>(tensor.dtype)] += count;
  }
  const auto most = std::max_element(elements.begin(), elements.end());
  return static_cast<DType>(most - elements.begin());
}

}  // namespace sluice::files
