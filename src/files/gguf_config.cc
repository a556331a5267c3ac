#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/architectures.h"
#include "files/config_check.h"
#include "files/gguf.h"
#include "files/gguf_encoder.h"
#include "files/gguf_mamba.h"
#include "files/gguf_positions.h"
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
      : file_(file), info_(info), prefix_(StrCat(info.gguf_name, ".")) {
    config_.architecture = info.architecture;
    config_.rope.interleaved = info.gguf_interleaved;
  }

  Result<ModelConfig> Read() {
    SLUICE_RETURN_IF_ERROR(RefuseUnsupported());
    SLUICE_RETURN_IF_ERROR(ReadSizes());
    SLUICE_RETURN_IF_ERROR(ReadVocabulary());
    SLUICE_RETURN_IF_ERROR(ReadRope());
    SLUICE_RETURN_IF_ERROR(ReadAttention());
    SLUICE_RETURN_IF_ERROR(ReadLayers());
    SLUICE_RETURN_IF_ERROR(ReadExperts());
    SLUICE_RETURN_IF_ERROR(ReadTraits());
    SLUICE_RETURN_IF_ERROR(ReadGgufPositions(file_, info_, &config_));
    SLUICE_RETURN_IF_ERROR(ReadScales());
    SLUICE_RETURN_IF_ERROR(ReadGgufPooling(file_, info_, &config_));
    SLUICE_RETURN_IF_ERROR(FinishConfig(&config_));
    return std::move(config_);
  }

 private:
  bool Is(Architecture architecture) const { return config_.architecture == architecture; }
  std::string Key(std::string_view suffix) const { return StrCat(prefix_, suffix); }

  Status CheckInt(const std::string& key, int64_t value, IntRange range) const {
    if (value >= range.min && value <= range.max) return OkStatus();
    return BadModel(
        StrCat(Quote(key), " is ", value, "; ", range.min, " to ", range.max, " are legal"));
  }
  // Leaves *value alone when the key is absent.
  Status OptionalInt(std::string_view suffix, IntRange range, int* value) const;
  Status RequiredInt(std::string_view suffix, IntRange range, int* value) const;
  // An integer, or an array that gives every layer the same one.
  Status UniformInt(std::string_view suffix, IntRange range, int* value) const;
  Status OptionalReal(std::string_view suffix, RealRange range, std::optional<float>* value) const;
  // As OptionalReal, where the file writes 0 for "none".
  Status OptionalCap(std::string_view suffix, std::optional<float>* value) const;
  // As OptionalReal, where the file may also write 0 for "1".
  Status OptionalFactor(std::string_view suffix, float* value) const;

  Status RefuseUnsupported() const;
  Status ReadSizes();
  Status ReadExperts();
  Status ReadVocabulary();
  Status ReadRope();
  Status ReadScaling();
  Status ReadYarn();
  Status ReadFactorTensors();
  Result<std::vector<float>> ReadFactors(const FileTensor& tensor) const;
  Status ReadAttention();
  Status ReadLayers();
  // Which layers see a window: from the file's array or period, else from `period`.
  Status ReadWindowPattern(int period);
  // That of the layers that see a window.
  Status ReadLocalRope();
  Status ReadTraits();
  Status ReadScales();

  const GgufFile& file_;
  const ArchitectureInfo& info_;
  const std::string prefix_;
  ModelConfig config_;
};

Status GgufConfigReader::OptionalInt(std::string_view suffix, IntRange range, int* value) const {
  const std::string key = Key(suffix);
  SLUICE_ASSIGN_OR_RETURN(const std::optional<int64_t> number, file_.Integer(key));
  if (!number) return OkStatus();
  SLUICE_RETURN_IF_ERROR(CheckInt(key, *number, range));
  *value = static_cast<int>(*number);
  return OkStatus();
}

Status GgufConfigReader::RequiredInt(std::string_view suffix, IntRange range, int* value) const {
  const std::string key = Key(suffix);
  if (!file_.metadata().contains(key)) {
    return BadModel(StrCat("the metadata key ", Quote(key), " is missing"));
  }
  return OptionalInt(suffix, range, value);
}

Status GgufConfigReader::UniformInt(std::string_view suffix, IntRange range, int* value) const {
  const std::string key = Key(suffix);
  const auto entry = file_.metadata().find(key);
  if (entry == file_.metadata().end()) return OkStatus();
  const auto* array = std::get_if<GgufValue::Array>(&entry->second.value);
  if (!array) return OptionalInt(suffix, range, value);
  const auto* numbers = std::get_if<std::vector<int64_t>>(array);
  if (!numbers || numbers->size() != static_cast<size_t>(config_.num_layers)) {
    return BadModel(StrCat("the metadata key ", Quote(key), " is not an integer or an array of ",
                           config_.num_layers, " integers"));
  }
  if (std::adjacent_find(numbers->begin(), numbers->end(), std::not_equal_to<>()) !=
      numbers->end()) {
    return BadModel(StrCat(Quote(key), " differs between layers, which is not supported"));
  }
  SLUICE_RETURN_IF_ERROR(CheckInt(key, numbers->front(), range));
  *value = static_cast<int>(numbers->front());
  return OkStatus();
}

Status GgufConfigReader::OptionalReal(std::string_view suffix, RealRange range,
                                      std::optional<float>* value) const {
  const std::string key = Key(suffix);
  SLUICE_ASSIGN_OR_RETURN(const std::optional<double> number, file_.Number(key));
  if (!number) return OkStatus();
  if (!(*number >= range.min && *number <= range.max)) {
    return BadModel(
        StrCat(Quote(key), " is ", *number, "; ", range.min, " to ", range.max, " are legal"));
  }
  *value = static_cast<float>(*number);
  return OkStatus();
}

Status GgufConfigReader::OptionalCap(std::string_view suffix, std::optional<float>* value) const {
  SLUICE_ASSIGN_OR_RETURN(const std::optional<double> number, file_.Number(Key(suffix)));
  if (number && *number == 0.0) {
    value->reset();
    return OkStatus();
  }
  return OptionalReal(suffix, kSoftCapRange, value);
}

Status GgufConfigReader::OptionalFactor(std::string_view suffix, float* value) const {
  SLUICE_ASSIGN_OR_RETURN(const std::optional<double> number, file_.Number(Key(suffix)));
  if (number && *number == 0.0) return OkStatus();
  std::optional<float> factor;
  SLUICE_RETURN_IF_ERROR(OptionalReal(suffix, kFactorRange, &factor));
  *value = factor.value_or(*value);
  return OkStatus();
}

Status GgufConfigReader::RefuseUnsupported() const {
  SLUICE_ASSIGN_OR_RETURN(const auto experts, file_.Integer(Key("expert_count")));
  if (experts.value_or(0) != 0 && !info_.gguf_experts) {
    return BadModel(StrCat("the model has ", *experts,
                           " experts per layer, which models of the "
                           "architecture ",
                           info_.gguf_name, " are not supported with"));
  }
  SLUICE_ASSIGN_OR_RETURN(const auto causal, file_.Boolean(Key("attention.causal")));
  if (!causal.value_or(true) && !info_.encoder) {
    return BadModel("the model's attention is not causal; only generating models are supported");
  }
  SLUICE_ASSIGN_OR_RETURN(const auto temperature, file_.Number(Key("attention.temperature_scale")));
  if (temperature.value_or(0.0) != 0.0) {
    return BadModel("the model scales attention by position, which is not supported");
  }
  return OkStatus();
}

Status GgufConfigReader::ReadSizes() {
  SLUICE_ASSIGN_OR_RETURN(const auto name, file_.String("general.name"));
  config_.name = name.value_or("");
  SLUICE_RETURN_IF_ERROR(RequiredInt("block_count", kLayersRange, &config_.num_layers));
  SLUICE_RETURN_IF_ERROR(RequiredInt("context_length", kContextRange, &config_.context_length));
  SLUICE_RETURN_IF_ERROR(RequiredInt("embedding_length", kHiddenRange, &config_.hidden_size));
  for (std::string_view key : {"feed_forward_length", "attention.head_count"}) {
    if (!file_.metadata().contains(Key(key))) {
      return BadModel(StrCat("the metadata key ", Quote(Key(key)), " is missing"));
    }
  }
  // Without attention and feed-forward parts these are zeros.
  config_.num_heads = 1;
  if (info_.layers != LayerRule::kMamba) {
    SLUICE_RETURN_IF_ERROR(
        UniformInt("feed_forward_length", kIntermediateRange, &config_.intermediate_size));
    SLUICE_RETURN_IF_ERROR(UniformInt("attention.head_count", kHeadsRange, &config_.num_heads));
  }
  config_.num_kv_heads = config_.num_heads;
  const bool by_layer =
      info_.layers == LayerRule::kShortConv || info_.layers == LayerRule::kMambaHybrid;
  if (!by_layer && info_.layers != LayerRule::kMamba) {
    SLUICE_RETURN_IF_ERROR(
        UniformInt("attention.head_count_kv", kHeadsRange, &config_.num_kv_heads));
  }

  config_.head_dim = info_.layers == LayerRule::kMamba ? info_.hf_defaults.head_dim
                                                       : config_.hidden_size / config_.num_heads;
  SLUICE_RETURN_IF_ERROR(OptionalInt("attention.key_length", kHeadDimRange, &config_.head_dim));
  int value_dim = config_.head_dim;
  SLUICE_RETURN_IF_ERROR(OptionalInt("attention.value_length", kHeadDimRange, &value_dim));
  if (value_dim != config_.head_dim) {
    return BadModel(StrCat("keys of ", config_.head_dim, " and values of ", value_dim,
                           " dimensions differ, which is not supported"));
  }
  const bool rms = info_.norm == ModelNorm::kRms;
  const char* eps_key = rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon";
  std::optional<float> eps;
  SLUICE_RETURN_IF_ERROR(OptionalReal(eps_key, kNormEpsRange, &eps));
  if (!eps) return BadModel(StrCat("the metadata key ", Quote(Key(eps_key)), " is missing"));
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
  SLUICE_RETURN_IF_ERROR(CheckInt("rows of token_embd.weight", embedding->shape[0], kVocabRange));
  config_.vocab_size = static_cast<int>(embedding->shape[0]);
  config_.tied_embeddings = file_.Find("output.weight") == nullptr;

  constexpr IntRange kIdRange{0, kVocabRange.max};
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    SLUICE_ASSIGN_OR_RETURN(const auto id, file_.Integer(key));
    // -1 and its 32-bit image stand for "none" in files of old converters.
    if (!id || *id == -1 || *id == 0xffffffff) continue;
    SLUICE_RETURN_IF_ERROR(CheckInt(key, *id, kIdRange));
    config_.eos_ids.push_back(static_cast<int>(*id));
  }
  constexpr char kBosKey[] = "tokenizer.ggml.bos_token_id";
  SLUICE_ASSIGN_OR_RETURN(const auto bos, file_.Integer(kBosKey));
  if (bos && *bos != -1 && *bos != 0xffffffff) {
    SLUICE_RETURN_IF_ERROR(CheckInt(kBosKey, *bos, kIdRange));
    config_.bos_id = static_cast<int>(*bos);
  }
  return OkStatus();
}

Status GgufConfigReader::ReadRope() {
  RopeConfig& rope = config_.rope;
  rope.rotary_dims = config_.head_dim;
  SLUICE_RETURN_IF_ERROR(OptionalInt("rope.dimension_count", kHeadDimRange, &rope.rotary_dims));
  std::optional<float> theta;
  SLUICE_RETURN_IF_ERROR(OptionalReal("rope.freq_base", kThetaRange, &theta));
  rope.theta = theta.value_or(rope.theta);
  rope.original_context = config_.context_length;
  SLUICE_RETURN_IF_ERROR(
      OptionalInt("rope.scaling.original_context_length", kContextRange, &rope.original_context));
  SLUICE_RETURN_IF_ERROR(ReadScaling());
  SLUICE_RETURN_IF_ERROR(ReadFactorTensors());
  // Gemma 3 declares the length after its linear scaling.
  if (!Is(Architecture::kGemma3)) {
    config_.context_length = ScaledContext(rope, config_.context_length);
  }
  return OkStatus();
}

Status GgufConfigReader::ReadScaling() {
  RopeConfig& rope = config_.rope;
  std::optional<float> factor;
  for (const char* suffix : {"rope.scale_linear", "rope.scaling.factor"}) {
    SLUICE_ASSIGN_OR_RETURN(const auto number, file_.Number(Key(suffix)));
    if (number && *number == 0.0) continue;  // "none"
    SLUICE_RETURN_IF_ERROR(OptionalReal(suffix, kRopeFactorRange, &factor));
  }
  rope.factor = factor.value_or(1.0f);
  SLUICE_ASSIGN_OR_RETURN(const auto type, file_.String(Key("rope.scaling.type")));
  const std::string_view name = type ? std::string_view(*type) : std::string_view("linear");
  if (name == "linear") {
    if (rope.factor != 1.0f) rope.scaling = RopeScaling::kLinear;
  } else if (name == "yarn") {
    rope.scaling = RopeScaling::kYarn;
    return ReadYarn();
  } else if (name == "none") {
    rope.factor = 1.0f;
  } else if (name != "longrope") {  // longrope is what its tensors say
    return BadModel(StrCat(Quote(Key("rope.scaling.type")), " is ", Quote(name),
                           "; none, linear, yarn and longrope are supported"));
  }
  return OkStatus();
}

Status GgufConfigReader::ReadYarn() {
  RopeConfig& rope = config_.rope;
  std::optional<float> fast, slow, extra;
  rope.truncate = !Is(Architecture::kGptOss);  // which the file does not say
  constexpr RealRange kBetaRange{1e-3, 1e4};
  SLUICE_RETURN_IF_ERROR(OptionalReal("rope.scaling.yarn_beta_fast", kBetaRange, &fast));
  SLUICE_RETURN_IF_ERROR(OptionalReal("rope.scaling.yarn_beta_slow", kBetaRange, &slow));
  rope.beta_fast = fast.value_or(rope.beta_fast);
  rope.beta_slow = slow.value_or(rope.beta_slow);
  constexpr RealRange kAttentionFactorRange{1e-3, 1e3};
  SLUICE_RETURN_IF_ERROR(
      OptionalReal("rope.scaling.yarn_attn_factor", kAttentionFactorRange, &rope.attention_factor));
  SLUICE_RETURN_IF_ERROR(OptionalCap("rope.scaling.yarn_log_multiplier", &rope.mscale_all_dim));
  if (rope.mscale_all_dim) rope.mscale = 1.0f;
  // A factor on top of YaRN's own.
  SLUICE_RETURN_IF_ERROR(OptionalReal("rope.scaling.attn_factor", kAttentionFactorRange, &extra));
  if (extra && *extra != 1.0f) {
    const float own = rope.factor <= 1.0f ? 1.0f : 0.1f * std::log(rope.factor) + 1.0f;
    rope.attention_factor = rope.attention_factor.value_or(own) * *extra;
  }
  return OkStatus();
}

Result<std::vector<float>> GgufConfigReader::ReadFactors(const FileTensor& tensor) const {
  if (tensor.dtype != DType::kF32 || tensor.shape.size() != 1 ||
      tensor.shape[0] > kHeadDimRange.max) {
    return BadModel(StrCat("the tensor ", Quote(tensor.name), " is not a list of at most ",
                           kHeadDimRange.max, " F32 values"));
  }
  std::vector<float> factors(static_cast<size_t>(tensor.shape[0]));
  std::memcpy(factors.data(), tensor.data.data(), tensor.data.size());
  return factors;
}

Status GgufConfigReader::ReadFactorTensors() {
  RopeConfig& rope = config_.rope;
  if (const FileTensor* tensor = file_.Find("rope_freqs.weight")) {
    SLUICE_ASSIGN_OR_RETURN(rope.frequency_factors, ReadFactors(*tensor));
  }
  const FileTensor* longer = file_.Find("rope_factors_long.weight");
  const FileTensor* shorter = file_.Find("rope_factors_short.weight");
  if (!longer && !shorter) return OkStatus();
  if (!longer || !shorter) {
    return BadModel(
        "of the tensors \"rope_factors_long.weight\" and \"rope_factors_short.weight\" one is "
        "missing");
  }
  SLUICE_ASSIGN_OR_RETURN(rope.long_factor, ReadFactors(*longer));
  SLUICE_ASSIGN_OR_RETURN(rope.short_factor, ReadFactors(*shorter));
  rope.scaling = RopeScaling::kLongRope;
  rope.factor = static_cast<float>(config_.context_length) / rope.original_context;
  return OptionalReal("rope.scaling.attn_factor", {1e-3, 1e3}, &rope.attention_factor);
}

Status GgufConfigReader::ReadAttention() {
  float width = config_.head_dim;
  const bool big_gemma = (Is(Architecture::kGemma2) && config_.num_layers == kGemma2Layers27B) ||
                         (Is(Architecture::kGemma3) && config_.num_layers == kGemma3Layers27B);
  if (big_gemma) width = static_cast<float>(config_.hidden_size / config_.num_heads);
  std::optional<float> scale;
  SLUICE_RETURN_IF_ERROR(OptionalReal("attention.scale", kAttentionScaleRange, &scale));
  config_.attention_scale = scale.value_or(1.0f / std::sqrt(width));
  if (Is(Architecture::kGemma2)) {
    config_.attention_soft_cap = kGemma2AttentionCap;
    config_.logit_soft_cap = kGemma2LogitCap;
    SLUICE_RETURN_IF_ERROR(OptionalCap("attn_logit_softcapping", &config_.attention_soft_cap));
  }
  return OptionalCap("final_logit_softcapping", &config_.logit_soft_cap);
}

Status GgufConfigReader::ReadLayers() {
  config_.layers.assign(static_cast<size_t>(config_.num_layers), LayerConfig());
  int window = Is(Architecture::kGemma2) ? info_.hf_defaults.window : 0;
  // 0 stands for "none".
  SLUICE_RETURN_IF_ERROR(OptionalInt("attention.sliding_window", {0, kContextRange.max}, &window));
  switch (info_.layers) {
    case LayerRule::kPeriodicWindow:
      config_.sliding_window = window;
      if (window == 0) return OkStatus();
      SLUICE_RETURN_IF_ERROR(ReadWindowPattern(info_.window_period));
      for (LayerConfig& layer : config_.layers) {
        layer.use_rope = !info_.rope_in_windows_alone || layer.kind == LayerKind::kWindow;
      }
      return info_.local_rope ? ReadLocalRope() : OkStatus();
    case LayerRule::kFull:  // Mistral 7B v0.1 among them
    case LayerRule::kWindow:
      if (window != 0 && Is(Architecture::kOlmo2)) {
        return BadModel(StrCat(Quote(Key("attention.sliding_window")), " is ", window,
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
      return ReadGgufShortConv(file_, info_, &config_);
    case LayerRule::kMamba:
    case LayerRule::kMambaHybrid:
    case LayerRule::kMambaBeside:
    case LayerRule::kMambaPattern:
      return ReadGgufMamba(file_, info_, &config_);
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

// Layers that have a router have experts.
Status GgufConfigReader::ReadExperts() {
  ExpertsConfig experts;
  SLUICE_RETURN_IF_ERROR(OptionalInt("expert_count", kExpertsRange, &experts.count));
  if (experts.count == 0) return OkStatus();
  SLUICE_RETURN_IF_ERROR(
      RequiredInt("expert_used_count", kExpertsPerTokenRange, &experts.per_token));
  experts.width = config_.intermediate_size;
  SLUICE_RETURN_IF_ERROR(
      OptionalInt("expert_feed_forward_length", kIntermediateRange, &experts.width));
  const HfExperts& form = info_.hf_experts;
  experts.renormalize = !form.weighs_inputs;
  experts.product_biases = form.product_biases;
  experts.weighs_inputs = form.weighs_inputs;
  experts.score = form.score;
  experts.bias = !form.bias.empty();
  // Where it is known to stand for config.json's "routed_scaling_factor".
  if (info_.layers == LayerRule::kShortConv) {
    SLUICE_RETURN_IF_ERROR(OptionalFactor("expert_weights_scale", &experts.scale));
  }
  for (size_t i = 0; i < config_.layers.size(); ++i) {
    if (file_.Find(StrCat("blk.", i, ".ffn_gate_inp.weight")) == nullptr) continue;
    config_.layers[i].experts = true;
    const FileTensor* shared = file_.Find(StrCat("blk.", i, ".ffn_up_shexp.weight"));
    if (shared != nullptr && !shared->shape.empty()) {
      SLUICE_RETURN_IF_ERROR(
          CheckInt("rows of ffn_up_shexp.weight", shared->shape.front(), kIntermediateRange));
      experts.shared_width = static_cast<int>(shared->shape.front());
    }
    config_.experts = experts;
  }
  return OkStatus();
}

Status GgufConfigReader::ReadLocalRope() {
  std::optional<float> theta;
  SLUICE_RETURN_IF_ERROR(OptionalReal("rope.freq_base_swa", kThetaRange, &theta));
  config_.local_rope.theta = theta.value_or(kLocalTheta);
  config_.local_rope.rotary_dims = config_.rope.rotary_dims;
  config_.local_rope.interleaved = config_.rope.interleaved;
  for (LayerConfig& layer : config_.layers) layer.local_rope = layer.kind == LayerKind::kWindow;
  return OkStatus();
}

Status GgufConfigReader::ReadWindowPattern(int period) {
  const std::string key = Key("attention.sliding_window_pattern");
  const auto entry = file_.metadata().find(key);
  const auto* array = entry == file_.metadata().end()
                          ? nullptr
                          : std::get_if<GgufValue::Array>(&entry->second.value);
  if (!array) {
    SLUICE_RETURN_IF_ERROR(OptionalInt("attention.sliding_window_pattern", {0, 1024}, &period));
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
  config_.attention_bias =
      any({"blk.0.attn_q.bias", "blk.0.attn_k.bias", "blk.0.attn_v.bias", "blk.0.attn_qkv.bias"});
  config_.attention_output_bias = any({"blk.0.attn_output.bias"});
  config_.mlp_bias = any({"blk.0.ffn_gate.bias", "blk.0.ffn_up.bias", "blk.0.ffn_down.bias"});
  config_.logits_bias = any({"output.bias"});
  config_.qk_norm = info_.qk_norm;
  config_.plain_mlp = info_.plain_mlp;
  config_.attention_sinks = info_.attention_sinks;
  config_.qk_norm_behind_rope = info_.qk_norm_behind_rope;
  config_.embedding_norm = info_.embedding_norm;
  SLUICE_ASSIGN_OR_RETURN(const auto parallel, file_.Boolean(Key("use_parallel_residual")));
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
    case HfScales::kGemma4:    // not read from GGUF
    case HfScales::kFalconH1:  // the converter has multiplied the weights
      return OkStatus();
    case HfScales::kGemma:
      config_.embedding_scale = std::sqrt(static_cast<float>(config_.hidden_size));
      return OkStatus();
    case HfScales::kGranite: {
      float divisor = 1.0f;
      SLUICE_RETURN_IF_ERROR(OptionalFactor("embedding_scale", &config_.embedding_scale));
      SLUICE_RETURN_IF_ERROR(OptionalFactor("residual_scale", &config_.residual_scale));
      SLUICE_RETURN_IF_ERROR(OptionalFactor("logit_scale", &divisor));
      config_.logit_scale = 1.0f / divisor;
      return OkStatus();
    }
    case HfScales::kCohere:
      return OptionalFactor("logit_scale", &config_.logit_scale);
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
    if (known.gguf_name == *name) return GgufConfigReader(file, known).Read();
    names += StrCat(names.empty() ? "" : ", ", known.gguf_name);
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
