#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/architectures.h"
#include "files/config_check.h"
#include "files/gguf.h"
#include "files/gguf_encoder.h"
#include "files/gguf_fields.h"
#include "files/gguf_gemma3n.h"
#include "files/gguf_gemma4.h"
#include "files/gguf_mamba.h"
#include "files/gguf_positions.h"
#include "files/gguf_rope.h"
#include "files/gguf_short_conv.h"
#include "files/model_config.h"
#include "files/published_values.h"

namespace sluice::files {
namespace {

// Gemma's 27B models scale scores by hidden_size / heads, all others by head_dim; the file does not
// say which, so the number of layers must.
constexpr int kGemma2Layers27B = 46;
constexpr int kGemma3Layers27B = 62;

class GgufConfigReader {
 public:
  GgufConfigReader(const GgufFile& file, const ArchitectureInfo& info)
      : file_(file), info_(info), fields_(file, info_) {
    config_.architecture = info.architecture;
    config_.rope.interleaved = info.gguf_interleaved;
  }

  Result<ModelConfig> Read() {
    SLUICE_RETURN_IF_ERROR(RefuseUnsupported());
    SLUICE_RETURN_IF_ERROR(ReadSizes());
    SLUICE_RETURN_IF_ERROR(ReadVocabulary());
    SLUICE_RETURN_IF_ERROR(ReadGgufRope(fields_, &config_));
    SLUICE_RETURN_IF_ERROR(ReadAttention());
    SLUICE_RETURN_IF_ERROR(ReadLayers());
    if (Is(Architecture::kGemma4)) SLUICE_RETURN_IF_ERROR(ReadGgufGemma4(fields_, &config_));
    if (Is(Architecture::kGemma3n)) SLUICE_RETURN_IF_ERROR(ReadGgufGemma3n(fields_, &config_));
    SLUICE_RETURN_IF_ERROR(ReadExperts());
    SLUICE_RETURN_IF_ERROR(ReadTraits());
    SLUICE_RETURN_IF_ERROR(ReadGgufPositions(fields_, &config_));
    SLUICE_RETURN_IF_ERROR(ReadScales());
    SLUICE_RETURN_IF_ERROR(ReadGgufPooling(file_, info_, &config_));
    SLUICE_RETURN_IF_ERROR(FinishConfig(&config_));
    return std::move(config_);
  }

 private:
  bool Is(Architecture architecture) const { return config_.architecture == architecture; }
  Status RefuseUnsupported() const;
  Status ReadSizes();
  Status ReadExperts();
  Status ReadPatternExperts(ExpertsConfig* experts) const;
  Status ReadVocabulary();
  Status ReadAttention();
  Status ReadLayers();
  // Which layers see a window: from the file's array or period, else from `period`.
  Status ReadWindowPattern(int period);
  Status ReadTraits();
  Status ReadScales();

  const GgufFile& file_;
  const ArchitectureInfo info_;
  const GgufFields fields_;
  ModelConfig config_;
};

Status GgufConfigReader::RefuseUnsupported() const {
  SLUICE_ASSIGN_OR_RETURN(const auto experts, file_.Integer(fields_.Key("expert_count")));
  if (experts.value_or(0) != 0 && !info_.gguf_experts) {
    return BadModel(StrCat("the model has ", *experts,
                           " experts per layer, which models of the "
                           "architecture ",
                           info_.gguf_name, " are not supported with"));
  }
  SLUICE_ASSIGN_OR_RETURN(const auto causal, file_.Boolean(fields_.Key("attention.causal")));
  if (!causal.value_or(true) && !info_.encoder) {
    return BadModel("the model's attention is not causal; only generating models are supported");
  }
  SLUICE_ASSIGN_OR_RETURN(const auto temperature,
                          file_.Number(fields_.Key("attention.temperature_scale")));
  if (temperature.value_or(0.0) != 0.0) {
    return BadModel("the model scales attention by position, which is not supported");
  }
  return OkStatus();
}

Status GgufConfigReader::ReadSizes() {
  SLUICE_ASSIGN_OR_RETURN(const auto name, file_.String("general.name"));
  config_.name = name.value_or("");
  SLUICE_RETURN_IF_ERROR(fields_.RequiredInt("block_count", kLayersRange, &config_.num_layers));
  SLUICE_RETURN_IF_ERROR(
      fields_.RequiredInt("context_length", kContextRange, &config_.context_length));
  SLUICE_RETURN_IF_ERROR(
      fields_.RequiredInt("embedding_length", kHiddenRange, &config_.hidden_size));
  for (std::string_view key : {"feed_forward_length", "attention.head_count"}) {
    if (!file_.metadata().contains(fields_.Key(key))) {
      return BadModel(StrCat("the metadata key ", Quote(fields_.Key(key)), " is missing"));
    }
  }
  // Without attention and feed-forward parts these are zeros, and some have them layer by layer.
  config_.num_heads = 1;
  const bool alone = info_.layers == LayerRule::kMamba;
  const bool each = Is(Architecture::kGemma4) || info_.layers == LayerRule::kMambaPattern;
  if (!alone && !each && !Is(Architecture::kGemma3n)) {
    SLUICE_RETURN_IF_ERROR(fields_.UniformInt("feed_forward_length", kIntermediateRange,
                                              config_.num_layers, &config_.intermediate_size));
  }
  if (!alone) {
    SLUICE_RETURN_IF_ERROR(fields_.UniformInt("attention.head_count", kHeadsRange,
                                              config_.num_layers, &config_.num_heads));
  }
  config_.num_kv_heads = config_.num_heads;
  const bool by_layer = info_.layers == LayerRule::kShortConv ||
                        info_.layers == LayerRule::kMambaHybrid ||
                        info_.layers == LayerRule::kMambaPeriodic;
  if (!by_layer && !alone && !each) {
    SLUICE_RETURN_IF_ERROR(fields_.UniformInt("attention.head_count_kv", kHeadsRange,
                                              config_.num_layers, &config_.num_kv_heads));
  }

  config_.head_dim = info_.layers == LayerRule::kMamba ? info_.hf_defaults.head_dim
                                                       : config_.hidden_size / config_.num_heads;
  SLUICE_RETURN_IF_ERROR(fields_.Int("attention.key_length", kHeadDimRange, &config_.head_dim));
  int value_dim = config_.head_dim;
  SLUICE_RETURN_IF_ERROR(fields_.Int("attention.value_length", kHeadDimRange, &value_dim));
  if (value_dim != config_.head_dim) {
    return BadModel(StrCat("keys of ", config_.head_dim, " and values of ", value_dim,
                           " dimensions differ, which is not supported"));
  }
  const bool rms = info_.norm == ModelNorm::kRms;
  const char* eps_key = rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon";
  std::optional<float> eps;
  SLUICE_RETURN_IF_ERROR(fields_.Real(eps_key, kNormEpsRange, &eps));
  // Which of its keys a file of Nemotron-H has depends on how config.json spells it.
  if (!eps && info_.layers == LayerRule::kMambaPattern) {
    SLUICE_RETURN_IF_ERROR(fields_.Real("attention.layer_norm_epsilon", kNormEpsRange, &eps));
  }
  if (!eps)
    return BadModel(StrCat("the metadata key ", Quote(fields_.Key(eps_key)), " is missing"));
  config_.norm_eps = *eps;
  return OkStatus();
}

Status GgufConfigReader::ReadVocabulary() {
  const FileTensor* embedding = file_.Find("token_embd.weight");
  if (!embedding) return BadModel("the tensor \"token_embd.weight\" is missing");
  if (embedding->shape.size() != 2 || embedding->shape[1] != config_.hidden_size) {
    return BadModel(StrCat("the tensor \"token_embd.weight\" does not have rows of ",
                           config_.hidden_size, " elements, as the metadata says"));
  }
  SLUICE_RETURN_IF_ERROR(
      CheckGgufInt("rows of token_embd.weight", embedding->shape[0], kVocabRange));
  config_.vocab_size = static_cast<int>(embedding->shape[0]);
  config_.tied_embeddings = file_.Find("output.weight") == nullptr;

  constexpr IntRange kIdRange{0, kVocabRange.max};
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    SLUICE_ASSIGN_OR_RETURN(const auto id, file_.Integer(key));
    // -1 and its 32-bit image stand for "none" in files of old converters.
    if (!id || *id == -1 || *id == 0xffffffff) continue;
    SLUICE_RETURN_IF_ERROR(CheckGgufInt(key, *id, kIdRange));
    config_.eos_ids.push_back(static_cast<int>(*id));
  }
  constexpr char kBosKey[] = "tokenizer.ggml.bos_token_id";
  SLUICE_ASSIGN_OR_RETURN(const auto bos, file_.Integer(kBosKey));
  if (bos && *bos != -1 && *bos != 0xffffffff) {
    SLUICE_RETURN_IF_ERROR(CheckGgufInt(kBosKey, *bos, kIdRange));
    config_.bos_id = static_cast<int>(*bos);
  }
  return OkStatus();
}

Status GgufConfigReader::ReadAttention() {
  float width = config_.head_dim;
  const bool big_gemma = (Is(Architecture::kGemma2) && config_.num_layers == kGemma2Layers27B) ||
                         (Is(Architecture::kGemma3) && config_.num_layers == kGemma3Layers27B);
  if (big_gemma) width = static_cast<float>(config_.hidden_size / config_.num_heads);
  std::optional<float> scale;
  SLUICE_RETURN_IF_ERROR(fields_.Real("attention.scale", kAttentionScaleRange, &scale));
  config_.attention_scale = scale.value_or(1.0f / std::sqrt(width));
  if (Is(Architecture::kGemma2)) {
    config_.attention_soft_cap = kGemma2AttentionCap;
    config_.logit_soft_cap = kGemma2LogitCap;
    SLUICE_RETURN_IF_ERROR(fields_.Cap("attn_logit_softcapping", &config_.attention_soft_cap));
  }
  if (Is(Architecture::kGemma3n)) config_.logit_soft_cap = kGemma3nLogitCap;
  return fields_.Cap("final_logit_softcapping", &config_.logit_soft_cap);
}

Status GgufConfigReader::ReadLayers() {
  config_.layers.assign(static_cast<size_t>(config_.num_layers), LayerConfig());
  int window = Is(Architecture::kGemma2) ? info_.hf_defaults.window : 0;
  // 0 stands for "none".
  SLUICE_RETURN_IF_ERROR(fields_.Int("attention.sliding_window", {0, kContextRange.max}, &window));
  switch (info_.layers) {
    case LayerRule::kPeriodicWindow:
      config_.sliding_window = window;
      if (window == 0) return OkStatus();
      SLUICE_RETURN_IF_ERROR(ReadWindowPattern(info_.window_period));
      for (LayerConfig& layer : config_.layers) {
        layer.use_rope = !info_.rope_in_windows_alone || layer.kind == LayerKind::kWindow;
      }
      return info_.local_rope ? ReadGgufLocalRope(fields_, &config_) : OkStatus();
    case LayerRule::kFull:  // Mistral 7B v0.1 among them
    case LayerRule::kWindow:
      if (window != 0 && Is(Architecture::kOlmo2)) {
        return BadModel(StrCat(Quote(fields_.Key("attention.sliding_window")), " is ", window,
                               "; OLMo 3, which has windows, is not supported"));
      }
      if (window == 0 || window >= config_.context_length) return OkStatus();
      config_.sliding_window = window;
      for (LayerConfig& layer : config_.layers) layer.kind = LayerKind::kWindow;
      return OkStatus();
    case LayerRule::kPeriodicRope:
      for (size_t i = kSmolLM3NoRopePeriod - 1; i < config_.layers.size();
           i += kSmolLM3NoRopePeriod) {
        config_.layers[i].use_rope = false;
      }
      return OkStatus();
    case LayerRule::kNoRope:
      for (LayerConfig& layer : config_.layers) layer.use_rope = false;
      return OkStatus();
    case LayerRule::kShortConv:
      return ReadGgufShortConv(fields_, &config_);
    case LayerRule::kMamba:
    case LayerRule::kMambaHybrid:
    case LayerRule::kMambaBeside:
    case LayerRule::kMambaPattern:
    case LayerRule::kMambaPeriodic:
      return ReadGgufMamba(fields_, &config_);
    case LayerRule::kSwitchedWindow:
    case LayerRule::kUpperWindow:
    case LayerRule::kPeriodicLinear:
    case LayerRule::kLightning:
    case LayerRule::kPeriodicChunks:  // read later
    case LayerRule::kLocal:
      return OkStatus();
  }
  return OkStatus();
}

// These keys are read for models whose layers follow a pattern alone.
Status GgufConfigReader::ReadPatternExperts(ExpertsConfig* experts) const {
  SLUICE_ASSIGN_OR_RETURN(const auto renormalize,
                          file_.Boolean(fields_.Key("expert_weights_norm")));
  experts->renormalize = renormalize.value_or(experts->renormalize);
  SLUICE_ASSIGN_OR_RETURN(const auto latent, file_.Integer(fields_.Key("moe_latent_size")));
  if (latent.value_or(0) != 0) {
    return BadModel(StrCat(Quote(fields_.Key("moe_latent_size")), " is ", *latent,
                           ", which is not supported; models without it are"));
  }
  SLUICE_RETURN_IF_ERROR(
      fields_.Int("expert_group_count", {1, kExpertsRange.max}, &experts->groups));
  experts->groups_kept = experts->groups;
  SLUICE_RETURN_IF_ERROR(
      fields_.Int("expert_group_used_count", {1, kExpertsRange.max}, &experts->groups_kept));
  return OkStatus();
}

// Layers that have a router have experts.
Status GgufConfigReader::ReadExperts() {
  ExpertsConfig experts;
  SLUICE_RETURN_IF_ERROR(fields_.Int("expert_count", kExpertsRange, &experts.count));
  const bool pattern = info_.layers == LayerRule::kMambaPattern;
  const bool any = std::any_of(config_.layers.begin(), config_.layers.end(),
                               [](const LayerConfig& layer) { return layer.experts; });
  // A file of a model that could have experts and has none may tell of some.
  if (experts.count == 0 || (pattern && !any)) return OkStatus();
  SLUICE_RETURN_IF_ERROR(
      fields_.RequiredInt("expert_used_count", kExpertsPerTokenRange, &experts.per_token));
  experts.width = config_.intermediate_size;
  SLUICE_RETURN_IF_ERROR(
      fields_.Int("expert_feed_forward_length", kIntermediateRange, &experts.width));
  const HfExperts& form = info_.hf_experts;
  experts.scales = experts.beside_dense = Is(Architecture::kGemma4);
  experts.renormalize = !form.weighs_inputs && !info_.gguf_plain_weights;
  experts.product_biases = form.product_biases;
  experts.weighs_inputs = form.weighs_inputs;
  experts.score = form.score;
  experts.bias = !form.bias.empty();
  // Where it is known to stand for config.json's "routed_scaling_factor".
  if (info_.layers == LayerRule::kShortConv || pattern) {
    SLUICE_RETURN_IF_ERROR(fields_.Factor("expert_weights_scale", &experts.scale));
  }
  if (pattern) SLUICE_RETURN_IF_ERROR(ReadPatternExperts(&experts));
  for (size_t i = 0; i < config_.layers.size(); ++i) {
    const std::string block = StrCat("blk.", config_.StoredMlp(static_cast<int>(i)), ".");
    if (file_.Find(block + "ffn_gate_inp.weight") == nullptr) continue;
    config_.layers[i].experts = true;
    const FileTensor* shared = file_.Find(block + "ffn_up_shexp.weight");
    if (shared != nullptr && !shared->shape.empty()) {
      SLUICE_RETURN_IF_ERROR(
          CheckGgufInt("rows of ffn_up_shexp.weight", shared->shape.front(), kIntermediateRange));
      experts.shared_width = static_cast<int>(shared->shape.front());
    }
    config_.experts = experts;
  }
  return OkStatus();
}

Status GgufConfigReader::ReadWindowPattern(int period) {
  const std::string key = fields_.Key("attention.sliding_window_pattern");
  const auto entry = file_.metadata().find(key);
  const auto* array = entry == file_.metadata().end()
                          ? nullptr
                          : std::get_if<GgufValue::Array>(&entry->second.value);
  if (!array) {
    SLUICE_RETURN_IF_ERROR(fields_.Int("attention.sliding_window_pattern", {0, 1024}, &period));
    for (int i = 0; i < config_.num_layers; ++i) {
      const bool full = period > 0 && i % period == period - 1;
      config_.layers[i].kind = full ? LayerKind::kFull : LayerKind::kWindow;
    }
    return OkStatus();
  }
  const auto* flags = std::get_if<std::vector<bool>>(array);
  if (!flags || flags->size() != config_.layers.size()) {
    return BadModel(StrCat("the metadata key ", Quote(key), " is not an array of ",
                           config_.num_layers, " bools"));
  }
  for (size_t i = 0; i < flags->size(); ++i) {
    config_.layers[i].kind = (*flags)[i] ? LayerKind::kWindow : LayerKind::kFull;
  }
  return OkStatus();
}

Status GgufConfigReader::ReadTraits() {
  const auto any = [&](std::initializer_list<std::string_view> names) {
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view n) { return file_.Find(n); });
  };
  const auto any_layer = [&](std::string_view name) {
    for (int i = 0; i < config_.stored_layers(); ++i) {
      if (file_.Find(StrCat("blk.", i, ".", name)) != nullptr) return true;
    }
    return false;
  };
  config_.attention_bias =
      any({"blk.0.attn_q.bias", "blk.0.attn_k.bias", "blk.0.attn_v.bias", "blk.0.attn_qkv.bias"});
  config_.attention_output_bias = any({"blk.0.attn_output.bias"});
  config_.mlp_bias = any({"blk.0.ffn_gate.bias", "blk.0.ffn_up.bias", "blk.0.ffn_down.bias"});
  if (info_.layers == LayerRule::kMambaPattern) {
    config_.attention_bias = any_layer("attn_q.bias");
    config_.attention_output_bias = any_layer("attn_output.bias");
    config_.mlp_bias = any_layer("ffn_up.bias");
  }
  config_.logits_bias = any({"output.bias"});
  config_.qk_norm = info_.qk_norm;
  config_.plain_mlp = info_.plain_mlp;
  config_.attention_sinks = info_.attention_sinks;
  config_.qk_norm_behind_rope = info_.qk_norm_behind_rope;
  config_.embedding_norm = info_.embedding_norm;
  SLUICE_ASSIGN_OR_RETURN(const auto parallel, file_.Boolean(fields_.Key("use_parallel_residual")));
  config_.parallel_residual = parallel.value_or(info_.parallel_residual);
  // Which Falcons have it the file says by its tensors alone.
  config_.parallel_norms =
      config_.parallel_residual && (info_.parallel_norms || any({"blk.0.attn_norm_2.weight"}));
  config_.activation = info_.activation;
  config_.dtype = MostCommonDType(file_.tensors());
  return RefuseNormalizedHead(config_, info_.normalized_head_vocab);
}

Status GgufConfigReader::ReadScales() {
  switch (info_.hf_scales) {
    case HfScales::kNone:
    case HfScales::kFalconH1:  // the converter has multiplied the weights
      return OkStatus();
    case HfScales::kGemma4:
      config_.attention_scale = 1.0f;
      [[fallthrough]];
    case HfScales::kGemma:
      config_.embedding_scale = std::sqrt(static_cast<float>(config_.hidden_size));
      return OkStatus();
    case HfScales::kGranite: {
      float divisor = 1.0f;
      SLUICE_RETURN_IF_ERROR(fields_.Factor("embedding_scale", &config_.embedding_scale));
      SLUICE_RETURN_IF_ERROR(fields_.Factor("residual_scale", &config_.residual_scale));
      SLUICE_RETURN_IF_ERROR(fields_.Factor("logit_scale", &divisor));
      config_.logit_scale = 1.0f / divisor;
      return OkStatus();
    }
    case HfScales::kCohere:
      return fields_.Factor("logit_scale", &config_.logit_scale);
  }
  return OkStatus();
}

// Reads a sampling number that the file may have.
template <class Number>
Status ReadDefault(const GgufFile& file, const SamplingField& field, std::optional<Number>* value) {
  constexpr bool kWhole = std::is_same_v<Number, int>;
  const IntRange whole = WholeDefaultsIn(field.range);
  const RealRange range =
      kWhole ? RealRange{static_cast<double>(whole.min), static_cast<double>(whole.max)}
             : DefaultsIn(field.range);
  std::optional<double> number;
  if constexpr (kWhole) {
    SLUICE_ASSIGN_OR_RETURN(const std::optional<int64_t> integer, file.Integer(field.gguf));
    if (integer) number = static_cast<double>(*integer);
  } else {
    SLUICE_ASSIGN_OR_RETURN(number, file.Number(field.gguf));
  }
  if (!number) return OkStatus();
  if (!(*number >= range.min && *number <= range.max)) {
    return BadModel(StrCat(Quote(field.gguf), " is ", *number, "; ", range.min, " to ", range.max,
                           " are legal"));
  }
  *value = static_cast<Number>(*number);
  return OkStatus();
}

}  // namespace

Result<ModelConfig> ConfigFromGguf(const GgufFile& file) {
  SLUICE_ASSIGN_OR_RETURN(const auto name, file.String("general.architecture"));
  if (!name) return BadModel("the metadata key \"general.architecture\" is missing");
  std::string names;
  for (const ArchitectureInfo& known : Architectures()) {
    if (known.gguf_name.empty()) continue;
    if (known.gguf_name == *name || (!name->empty() && known.gguf_experts_name == *name)) {
      ArchitectureInfo info = known;
      info.gguf_name = *name;
      return GgufConfigReader(file, info).Read();
    }
    names += StrCat(names.empty() ? "" : ", ", known.gguf_name);
    if (!known.gguf_experts_name.empty()) names += StrCat(", ", known.gguf_experts_name);
  }
  return BadModel(StrCat("the architecture ", Quote(*name), " is not supported; ", names, " are"));
}

Result<GenerationDefaults> GenerationDefaultsFromGguf(const GgufFile& file) {
  GenerationDefaults defaults;
  Status status;
  ForEachSamplingField(
      [&](const SamplingField& field, auto& value) {
        if (!field.in_model || !status.ok()) return;
        using Number = std::remove_reference_t<decltype(*value)>;
        status = ReadDefault<Number>(file, field, &value);
      },
      defaults.sampling);
  SLUICE_RETURN_IF_ERROR(status);
  return defaults;
}

}  // namespace sluice::files
