#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <type_traits>
#include <utility>

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/architectures.h"
#include "files/config_check.h"
#include "files/hf_encoder.h"
#include "files/hf_experts.h"
#include "files/hf_gemma3n.h"
#include "files/hf_gemma4.h"
#include "files/hf_latent.h"
#include "files/hf_lightning.h"
#include "files/hf_linear_attention.h"
#include "files/hf_mamba.h"
#include "files/hf_positions.h"
#include "files/hf_quantization.h"
#include "files/hf_rope.h"
#include "files/hf_scales.h"
#include "files/hf_short_conv.h"
#include "files/hf_wiring.h"
#include "files/json_fields.h"
#include "files/model_config.h"
#include "files/published_values.h"

namespace sluice::files {
namespace {

constexpr IntRange kIdRange{0, kVocabRange.max};
constexpr int kQwenMaxWindowLayers = 28;
constexpr int kQwen3NextAttentionPeriod = 4;
constexpr float kSwigluLimit = 7.0f, kSwigluSlope = 1.702f;

class HfConfigReader {
 public:
  // `top` is the whole config.json, `fields` the part that describes the language model.
  HfConfigReader(const JsonFields& top, const JsonFields& fields, const ArchitectureInfo& info)
      : top_(top), fields_(fields), info_(info), defaults_(info.hf_defaults) {
    config_.architecture = info.architecture;
  }

  Result<ModelConfig> Read(const std::optional<JsonFields>& generation) {
    SLUICE_RETURN_IF_ERROR(RefuseUnsupported());
    SLUICE_RETURN_IF_ERROR(ReadSizes());
    SLUICE_RETURN_IF_ERROR(ReadHeads());
    if (info_.latent.kv_rank > 0) SLUICE_RETURN_IF_ERROR(ReadHfLatent(fields_, &config_));
    SLUICE_RETURN_IF_ERROR(ReadTraits());
    SLUICE_RETURN_IF_ERROR(ReadDType());
    SLUICE_RETURN_IF_ERROR(ReadQuantization());
    SLUICE_RETURN_IF_ERROR(ReadActivation());
    SLUICE_RETURN_IF_ERROR(ReadHfRope(fields_, &config_));
    config_.rope.interleaved = info_.hf_interleaved;
    SLUICE_RETURN_IF_ERROR(ReadHfScales(fields_, info_, &config_));
    if (info_.latent.kv_rank > 0) SLUICE_RETURN_IF_ERROR(FinishHfLatent(fields_, &config_));
    // Gemma 3 declares the length after its linear scaling.
    if (!Is(Architecture::kGemma3)) {
      config_.context_length = ScaledContext(config_.rope, config_.context_length);
    }
    SLUICE_RETURN_IF_ERROR(ReadLayers());
    SLUICE_RETURN_IF_ERROR(ReadHfReusedPositions(fields_, &config_));
    if (Is(Architecture::kGemma4)) SLUICE_RETURN_IF_ERROR(ReadHfGemma4(fields_, &config_));
    if (Is(Architecture::kGemma3n)) SLUICE_RETURN_IF_ERROR(ReadHfGemma3n(fields_, &config_));
    SLUICE_RETURN_IF_ERROR(ReadHfAlibi(fields_, info_, &config_));
    SLUICE_RETURN_IF_ERROR(ReadHfExperts(fields_, info_, &config_));
    SLUICE_RETURN_IF_ERROR(ReadIds(generation));
    SLUICE_RETURN_IF_ERROR(FinishConfig(&config_));
    return std::move(config_);
  }

 private:
  bool Is(Architecture architecture) const { return config_.architecture == architecture; }
  Status RefuseUnsupported() const;
  Status ReadSizes();
  // A size that config.json may call by either name.
  Status ReadSize(std::string_view key, std::string_view other, IntRange range, int* value) const;
  Status ReadHeads();
  Status ReadTraits();
  Status RefuseNormsOfHeads() const;
  Status ReadBias(const HfBias& bias, bool* value) const;
  Status ReadDType();
  Status ReadQuantization();
  Status ReadActivation();
  Status CheckSwiglu() const;
  Status ReadIds(const std::optional<JsonFields>& generation);
  Status ReadLayers();
  Status ReadWindow();
  Status ReadWindowAndSwitch();
  Status ReadSwitchedWindow();
  Status ReadUpperWindow();
  Status ReadPeriodicWindow();
  Status ReadPeriodicRope();
  Status ReadPeriodicLinear();
  Status ReadShortConv();
  Status ReadLightning();
  Status ReadLocal();
  // Sets the kinds from "layer_types"; false when there is none.
  Result<bool> ReadLayerTypes();
  void SetAllWindow();

  const JsonFields& top_;
  const JsonFields& fields_;
  const ArchitectureInfo& info_;
  const HfDefaults& defaults_;
  ModelConfig config_;
};

Status HfConfigReader::RefuseUnsupported() const {
  bool bidirectional = false, causal = true;
  // Gemma 4's may name whose tokens see each other: those of images, or all.
  const Json* whose = fields_.Find("use_bidirectional_attention");
  if (whose == nullptr || !whose->is_string()) {
    SLUICE_RETURN_IF_ERROR(fields_.Bool("use_bidirectional_attention", &bidirectional));
  } else {
    bidirectional = *whose != "vision";
  }
  // In a config of several parts it may stand outside that of the text model.
  SLUICE_RETURN_IF_ERROR(top_.Bool("is_causal", &causal));
  if (causal) SLUICE_RETURN_IF_ERROR(fields_.Bool("is_causal", &causal));
  if (bidirectional || !causal) {
    return BadModel("the model's attention is not causal; only generating models are supported");
  }
  return RefuseNormsOfHeads();
}

// Some sizes of architectures that have no Q/K norms otherwise.
Status HfConfigReader::RefuseNormsOfHeads() const {
  if (info_.qk_norm != QkNormKind::kNone) return OkStatus();
  for (const char* key : {"qk_layernorm", "use_qk_norm"}) {
    bool norms = false;
    SLUICE_RETURN_IF_ERROR(fields_.Bool(key, &norms));
    if (norms) {
      return BadModel(StrCat(Quote(key), " is true; ", info_.name,
                             " models whose heads of Q and K have norms are not supported"));
    }
  }
  return OkStatus();
}

Status HfConfigReader::ReadSizes() {
  SLUICE_RETURN_IF_ERROR(top_.Text("_name_or_path", &config_.name));
  config_.vocab_size = defaults_.vocab;
  config_.hidden_size = defaults_.hidden;
  config_.intermediate_size = defaults_.intermediate;
  config_.num_layers = defaults_.layers;
  config_.context_length = defaults_.context;
  config_.norm_eps = defaults_.norm_eps;
  const HfKeys& keys = info_.hf_keys;
  SLUICE_RETURN_IF_ERROR(fields_.Int("vocab_size", kVocabRange, &config_.vocab_size));
  SLUICE_RETURN_IF_ERROR(RefuseNormalizedHead(config_, info_.normalized_head_vocab));
  SLUICE_RETURN_IF_ERROR(ReadSize("hidden_size", keys.hidden, kHiddenRange, &config_.hidden_size));
  // Gemma 3n may give each layer's.
  const Json* widths = fields_.Find("intermediate_size");
  if (!Is(Architecture::kGemma3n) || widths == nullptr || !widths->is_array()) {
    SLUICE_RETURN_IF_ERROR(ReadSize("intermediate_size", keys.intermediate, kIntermediateRange,
                                    &config_.intermediate_size));
  }
  if (config_.intermediate_size == 0) config_.intermediate_size = 4 * config_.hidden_size;
  SLUICE_RETURN_IF_ERROR(
      ReadSize("num_hidden_layers", keys.layers, kLayersRange, &config_.num_layers));
  SLUICE_RETURN_IF_ERROR(
      ReadSize("max_position_embeddings", keys.context, kContextRange, &config_.context_length));
  return fields_.Real(info_.hf_keys.norm_eps, kNormEpsRange, &config_.norm_eps);
}

Status HfConfigReader::ReadSize(std::string_view key, std::string_view other, IntRange range,
                                int* value) const {
  SLUICE_RETURN_IF_ERROR(fields_.Int(key, range, value));
  return other.empty() ? OkStatus() : fields_.Int(other, range, value);
}

Status HfConfigReader::ReadHeads() {
  config_.num_heads = defaults_.heads;
  SLUICE_RETURN_IF_ERROR(
      ReadSize("num_attention_heads", info_.hf_keys.heads, kHeadsRange, &config_.num_heads));
  const bool as_heads = defaults_.kv_heads == 0 || fields_.IsNull("num_key_value_heads");
  config_.num_kv_heads = as_heads ? config_.num_heads : defaults_.kv_heads;
  SLUICE_RETURN_IF_ERROR(
      ReadSize("num_key_value_heads", info_.hf_keys.kv_heads, kHeadsRange, &config_.num_kv_heads));
  config_.head_dim = fields_.IsNull("head_dim") ? 0 : defaults_.head_dim;
  SLUICE_RETURN_IF_ERROR(fields_.Int("head_dim", kHeadDimRange, &config_.head_dim));
  if (config_.head_dim != 0) return OkStatus();
  if (config_.hidden_size % config_.num_heads != 0) {
    return BadModel(StrCat("\"hidden_size\" ", config_.hidden_size, " is not a multiple of ",
                           config_.num_heads, " heads, and \"head_dim\" is not given"));
  }
  config_.head_dim = config_.hidden_size / config_.num_heads;
  return OkStatus();
}

Status HfConfigReader::ReadTraits() {
  if (info_.encoder) SLUICE_RETURN_IF_ERROR(ReadHfEncoder(top_, info_, &config_));
  config_.tied_embeddings = defaults_.tied;
  SLUICE_RETURN_IF_ERROR(top_.Bool("tie_word_embeddings", &config_.tied_embeddings));
  SLUICE_RETURN_IF_ERROR(fields_.Bool("tie_word_embeddings", &config_.tied_embeddings));
  bool qk_norm = info_.hf_qk_norm_key.empty();
  if (!qk_norm) SLUICE_RETURN_IF_ERROR(fields_.Bool(info_.hf_qk_norm_key, &qk_norm));
  if (qk_norm) config_.qk_norm = info_.qk_norm;
  config_.attention_gate = info_.attention_gate;
  config_.attention_sinks = info_.attention_sinks;
  if (info_.mtp_heads) {
    SLUICE_RETURN_IF_ERROR(
        fields_.Int("num_nextn_predict_layers", kMtpHeadsRange, &config_.mtp_heads));
  }
  SLUICE_RETURN_IF_ERROR(ReadHfWiring(fields_, info_, &config_));
  const HfBiases& biases = info_.hf_biases;
  config_.logits_bias = biases.logits;
  SLUICE_RETURN_IF_ERROR(ReadBias(biases.qkv, &config_.attention_bias));
  SLUICE_RETURN_IF_ERROR(ReadBias(biases.output, &config_.attention_output_bias));
  return ReadBias(biases.mlp, &config_.mlp_bias);
}

Status HfConfigReader::ReadBias(const HfBias& bias, bool* value) const {
  *value = bias.otherwise;
  return bias.key.empty() ? OkStatus() : fields_.Bool(bias.key, value);
}

Status HfConfigReader::ReadDType() {
  std::string name = "float32";
  for (const JsonFields* fields : {&top_, &fields_}) {
    SLUICE_RETURN_IF_ERROR(fields->Text("torch_dtype", &name));
    SLUICE_RETURN_IF_ERROR(fields->Text("dtype", &name));
  }
  constexpr std::pair<std::string_view, DType> kNames[] = {{"float32", DType::kF32},
                                                           {"float16", DType::kF16},
                                                           {"bfloat16", DType::kBF16},
                                                           {"float8_e4m3fn", DType::kF8E4M3},
                                                           {"auto", DType::kF32}};
  for (const auto& [known, dtype] : kNames) {
    if (name == known) {
      config_.dtype = dtype;
      return OkStatus();
    }
  }
  return BadModel(StrCat("\"torch_dtype\" is ", Quote(name),
                         "; float32, float16, bfloat16 and float8_e4m3fn are supported"));
}

// Some files of several parts have it outside that of the text model.
Status HfConfigReader::ReadQuantization() {
  SLUICE_ASSIGN_OR_RETURN(config_.quantization, ReadHfQuantization(top_));
  if (config_.quantization) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(config_.quantization, ReadHfQuantization(fields_));
  return OkStatus();
}

// What the activation's kernels are made for.
Status HfConfigReader::CheckSwiglu() const {
  float limit = kSwigluLimit, slope = kSwigluSlope;
  SLUICE_RETURN_IF_ERROR(fields_.Real("swiglu_limit", kFactorRange, &limit));
  SLUICE_RETURN_IF_ERROR(fields_.Real("swiglu_alpha", kFactorRange, &slope));
  if (limit == kSwigluLimit && slope == kSwigluSlope) return OkStatus();
  return BadModel(StrCat("\"swiglu_limit\" is ", limit, " and \"swiglu_alpha\" ", slope, "; only ",
                         kSwigluLimit, " and ", kSwigluSlope, " are supported"));
}

Status HfConfigReader::ReadActivation() {
  config_.activation = info_.activation;
  if (config_.activation == ActivationKind::kClampedSwiglu) SLUICE_RETURN_IF_ERROR(CheckSwiglu());
  if (info_.hf_keys.activation.empty()) return OkStatus();
  std::string name;
  SLUICE_RETURN_IF_ERROR(fields_.Text(info_.hf_keys.activation, &name));
  if (name.empty()) return OkStatus();
  constexpr std::pair<std::string_view, ActivationKind> kNames[] = {
      {"silu", ActivationKind::kSilu},
      {"swish", ActivationKind::kSilu},
      {"gelu_pytorch_tanh", ActivationKind::kGeluTanh},
      {"gelu_python_tanh", ActivationKind::kGeluTanh},
      {"gelu_new", ActivationKind::kGeluTanh},
      {"gelu_fast", ActivationKind::kGeluTanh},
      {"gelu", ActivationKind::kGeluErf},
      {"gelu_python", ActivationKind::kGeluErf},
      {"relu2", ActivationKind::kReluSquared}};
  for (const auto& [known, kind] : kNames) {
    if (name == known) {
      config_.activation = kind;
      return OkStatus();
    }
  }
  return BadModel(StrCat("the activation is ", Quote(name),
                         "; silu, gelu, gelu_pytorch_tanh and relu2 are supported"));
}

Status HfConfigReader::ReadIds(const std::optional<JsonFields>& generation) {
  std::vector<const JsonFields*> sources = {&top_, &fields_};
  if (generation) sources.push_back(&*generation);
  bool said = false;
  int bos = -1;
  for (const JsonFields* fields : sources) {
    said = said || fields->Has("eos_token_id") || fields->IsNull("eos_token_id");
    SLUICE_RETURN_IF_ERROR(fields->Ids("eos_token_id", kIdRange, &config_.eos_ids));
    SLUICE_RETURN_IF_ERROR(fields->Int("bos_token_id", kIdRange, &bos));
  }
  if (!said && defaults_.eos_id >= 0) config_.eos_ids.push_back(defaults_.eos_id);
  if (bos < 0 && !fields_.IsNull("bos_token_id")) bos = defaults_.bos_id;
  if (bos >= 0) config_.bos_id = bos;
  return OkStatus();
}

Result<bool> HfConfigReader::ReadLayerTypes() {
  const Json* types = fields_.Find("layer_types");
  if (!types) return false;
  if (!types->is_array() || types->size() != config_.layers.size()) {
    return BadModel(StrCat("\"layer_types\" is not a list of ", config_.num_layers, " names"));
  }
  std::string_view other = "sliding_attention";
  LayerKind other_kind = LayerKind::kWindow;
  if (info_.layers == LayerRule::kPeriodicLinear) {
    other = "linear_attention";
    other_kind = LayerKind::kLinear;
  } else if (info_.layers == LayerRule::kShortConv) {
    other = "conv";
    other_kind = LayerKind::kShortConv;
  } else if (info_.layers == LayerRule::kLightning) {
    other = "linear_attention";
    other_kind = LayerKind::kLightning;
  }
  for (size_t i = 0; i < types->size(); ++i) {
    const Json& type = (*types)[i];
    const std::string name = type.is_string() ? type.get<std::string>() : "";
    if (name != "full_attention" && name != other) {
      return BadModel(StrCat("\"layer_types\" gives layer ", i, " the type ", Quote(name),
                             "; full_attention and ", other, " are supported"));
    }
    config_.layers[i].kind = name == other ? other_kind : LayerKind::kFull;
  }
  return true;
}

void HfConfigReader::SetAllWindow() {
  // A window that no sequence outgrows is none.
  if (config_.sliding_window >= config_.context_length) config_.sliding_window = 0;
  if (config_.sliding_window == 0) return;
  for (LayerConfig& layer : config_.layers) layer.kind = LayerKind::kWindow;
}

Status HfConfigReader::ReadWindow() {
  config_.sliding_window = fields_.IsNull("sliding_window") ? 0 : defaults_.window;
  return fields_.Int("sliding_window", kContextRange, &config_.sliding_window);
}

Status HfConfigReader::ReadWindowAndSwitch() {
  bool use_window = false;
  SLUICE_RETURN_IF_ERROR(fields_.Bool("use_sliding_window", &use_window));
  if (use_window) return ReadWindow();
  // What is off may have any size; transformers writes 0.
  int unused = 0;
  return fields_.Int("sliding_window", {0, kContextRange.max}, &unused);
}

Status HfConfigReader::ReadLayers() {
  config_.layers.assign(static_cast<size_t>(config_.num_layers), LayerConfig());
  switch (info_.layers) {
    case LayerRule::kFull:
      return OkStatus();
    case LayerRule::kNoRope:
      for (LayerConfig& layer : config_.layers) layer.use_rope = false;
      return OkStatus();
    case LayerRule::kWindow:
      SLUICE_RETURN_IF_ERROR(ReadWindow());
      SetAllWindow();
      return OkStatus();
    case LayerRule::kSwitchedWindow:
      return ReadSwitchedWindow();
    case LayerRule::kUpperWindow:
      return ReadUpperWindow();
    case LayerRule::kPeriodicWindow:
      return ReadPeriodicWindow();
    case LayerRule::kPeriodicRope:
      return ReadPeriodicRope();
    case LayerRule::kPeriodicLinear:
      return ReadPeriodicLinear();
    case LayerRule::kPeriodicChunks:
      return ReadHfChunks(fields_, info_, &config_);
    case LayerRule::kShortConv:
      return ReadShortConv();
    case LayerRule::kMamba:
    case LayerRule::kMambaHybrid:
    case LayerRule::kMambaBeside:
    case LayerRule::kMambaPattern:
    case LayerRule::kMambaPeriodic:
      return ReadHfMamba(fields_, info_, &config_);
    case LayerRule::kLightning:
      return ReadLightning();
    case LayerRule::kLocal:
      return ReadLocal();
  }
  return OkStatus();
}

Status HfConfigReader::ReadSwitchedWindow() {
  SLUICE_RETURN_IF_ERROR(ReadWindowAndSwitch());
  if (!Is(Architecture::kQwen2Moe)) {
    SetAllWindow();
    return OkStatus();
  }
  // Every other layer of the first ones, unless each layer is named.
  int lower_layers = kQwenMaxWindowLayers;
  SLUICE_RETURN_IF_ERROR(fields_.Int("max_window_layers", {0, 1 << 20}, &lower_layers));
  SLUICE_ASSIGN_OR_RETURN(const bool given, ReadLayerTypes());
  if (given || config_.sliding_window == 0) return OkStatus();
  for (int i = 0; i < std::min(lower_layers, config_.num_layers); i += 2)
    config_.layers[static_cast<size_t>(i)].kind = LayerKind::kWindow;
  return OkStatus();
}

Status HfConfigReader::ReadUpperWindow() {
  SLUICE_RETURN_IF_ERROR(ReadWindowAndSwitch());
  int full_layers = kQwenMaxWindowLayers;
  SLUICE_RETURN_IF_ERROR(fields_.Int("max_window_layers", {0, 1 << 20}, &full_layers));
  SLUICE_ASSIGN_OR_RETURN(const bool given, ReadLayerTypes());
  if (given || config_.sliding_window == 0) return OkStatus();
  for (int i = full_layers; i < config_.num_layers; ++i) {
    config_.layers[static_cast<size_t>(i)].kind = LayerKind::kWindow;
  }
  return OkStatus();
}

Status HfConfigReader::ReadPeriodicWindow() {
  int period = info_.window_period;
  // EXAONE 4 without a window says 0, and some of its files a text such as "LLLG" beside
  // "layer_types", which then count.
  const bool number = fields_.Has("layer_types") || fields_.IsNull("sliding_window");
  if (!Is(Architecture::kGemma2) && !number) {
    SLUICE_RETURN_IF_ERROR(fields_.Int("_sliding_window_pattern", kLayersRange, &period));
    SLUICE_RETURN_IF_ERROR(fields_.Int("sliding_window_pattern", kLayersRange, &period));
  }
  SLUICE_RETURN_IF_ERROR(ReadWindow());
  SLUICE_ASSIGN_OR_RETURN(const bool given, ReadLayerTypes());
  if (!given && config_.sliding_window == 0) return OkStatus();
  for (size_t i = 0; i < config_.layers.size(); ++i) {
    LayerConfig& layer = config_.layers[i];
    if (!given) {
      const bool full = (i + 1) % static_cast<size_t>(period) == 0;
      layer.kind = full ? LayerKind::kFull : LayerKind::kWindow;
    }
    layer.local_rope = info_.local_rope && layer.kind == LayerKind::kWindow;
    layer.use_rope = !info_.rope_in_windows_alone || config_.sliding_window == 0 ||
                     layer.kind == LayerKind::kWindow;
  }
  return OkStatus();
}

Status HfConfigReader::ReadPeriodicRope() {
  int period = kSmolLM3NoRopePeriod;
  SLUICE_RETURN_IF_ERROR(fields_.Int("no_rope_layer_interval", kLayersRange, &period));
  std::vector<int> use_rope;
  SLUICE_RETURN_IF_ERROR(fields_.Ids("no_rope_layers", {0, 1}, &use_rope));
  if (fields_.Has("no_rope_layers") && use_rope.size() < config_.layers.size()) {
    return BadModel(StrCat("\"no_rope_layers\" has ", use_rope.size(), " items for ",
                           config_.num_layers, " layers"));
  }
  for (size_t i = 0; i < config_.layers.size(); ++i) {
    config_.layers[i].use_rope =
        use_rope.empty() ? (i + 1) % static_cast<size_t>(period) != 0 : use_rope[i] == 1;
  }
  SLUICE_RETURN_IF_ERROR(ReadWindowAndSwitch());
  SLUICE_ASSIGN_OR_RETURN(const bool given, ReadLayerTypes());
  if (given || config_.sliding_window == 0) return OkStatus();
  for (LayerConfig& layer : config_.layers) {
    if (!layer.use_rope) layer.kind = LayerKind::kWindow;
  }
  return OkStatus();
}

Status HfConfigReader::ReadPeriodicLinear() {
  SLUICE_RETURN_IF_ERROR(CheckHfLinearModel(fields_, config_));
  SLUICE_RETURN_IF_ERROR(ReadHfLinearAttention(fields_, &config_));
  int period = kQwen3NextAttentionPeriod;
  SLUICE_RETURN_IF_ERROR(fields_.Int("full_attention_interval", kLayersRange, &period));
  SLUICE_ASSIGN_OR_RETURN(const bool given, ReadLayerTypes());
  if (given) return OkStatus();
  for (int i = 0; i < config_.num_layers; ++i) {
    if ((i + 1) % period != 0) config_.layers[static_cast<size_t>(i)].kind = LayerKind::kLinear;
  }
  return OkStatus();
}

Status HfConfigReader::ReadShortConv() {
  SLUICE_RETURN_IF_ERROR(ReadHfShortConv(fields_, info_, &config_));
  SLUICE_ASSIGN_OR_RETURN(const bool given, ReadLayerTypes());
  return given ? OkStatus() : ReadHfAttentionLayers(fields_, &config_);
}

Status HfConfigReader::ReadLightning() {
  SLUICE_ASSIGN_OR_RETURN(const bool given, ReadLayerTypes());
  for (size_t i = 1; i < config_.layers.size() && !given; i += 2)
    config_.layers[i].kind = LayerKind::kLightning;
  return ReadHfLightning(fields_, &config_);
}

Status HfConfigReader::ReadLocal() {
  int period = info_.window_period;
  SLUICE_RETURN_IF_ERROR(fields_.Int("global_attn_every_n_layers", kLayersRange, &period));
  // Half of it on each side, and the token itself.
  int both_sides = defaults_.window;
  SLUICE_RETURN_IF_ERROR(fields_.Int("local_attention", kContextRange, &both_sides));
  config_.sliding_window = both_sides / 2 + 1;
  SLUICE_ASSIGN_OR_RETURN(const bool given, ReadLayerTypes());
  for (size_t i = 0; i < config_.layers.size(); ++i) {
    LayerConfig& layer = config_.layers[i];
    const bool local = i % static_cast<size_t>(period) != 0;
    if (!given) layer.kind = local ? LayerKind::kWindow : LayerKind::kFull;
    layer.local_rope = layer.kind == LayerKind::kWindow;
  }
  return OkStatus();
}

// The first of "architectures", or what "model_type" stands for.
Result<const ArchitectureInfo*> FindArchitecture(const JsonFields& top) {
  std::string name;
  const Json* architectures = top.Find("architectures");
  if (architectures && architectures->is_array() && !architectures->empty() &&
      architectures->front().is_string()) {
    name = architectures->front().get<std::string>();
  } else {
    SLUICE_RETURN_IF_ERROR(top.Text("model_type", &name));
  }
  std::string classes;
  for (const ArchitectureInfo& known : Architectures()) {
    for (const HfName& hf : known.hf_names) {
      if (hf.class_name.empty()) continue;
      if (name == hf.class_name || name == hf.model_type) return &known;
      classes += StrCat(classes.empty() ? "" : ", ", hf.class_name);
    }
  }
  return BadModel(StrCat(name.empty()
                             ? "config.json names no architecture"
                             : StrCat("the architecture ", Quote(name), " is not supported"),
                         "; ", classes, " are"));
}

}  // namespace

Result<ModelConfig> ConfigFromJson(std::string_view config_json,
                                   std::string_view generation_config_json) {
  SLUICE_ASSIGN_OR_RETURN(Json config,
                          ParseModelJson(WithoutInfinities(config_json), "config.json"));
  const JsonFields top(config);
  SLUICE_ASSIGN_OR_RETURN(const ArchitectureInfo* info, FindArchitecture(top));
  if (info->architecture == Architecture::kNomicBert)
    SLUICE_RETURN_IF_ERROR(SpellNomicBert(&config));
  SLUICE_ASSIGN_OR_RETURN(const auto text, top.Object("text_config"));
  Json generation_json;
  std::optional<JsonFields> generation;
  if (!generation_config_json.empty()) {
    SLUICE_ASSIGN_OR_RETURN(generation_json,
                            ParseModelJson(generation_config_json, "generation_config.json"));
    generation.emplace(generation_json);
  }
  return HfConfigReader(top, text ? *text : top, *info).Read(generation);
}

Result<GenerationDefaults> GenerationDefaultsFromJson(std::string_view generation_config_json) {
  GenerationDefaults defaults;
  if (generation_config_json.empty()) return defaults;
  SLUICE_ASSIGN_OR_RETURN(const Json json,
                          ParseModelJson(generation_config_json, "generation_config.json"));
  const JsonFields fields(json);
  if (fields.Has("do_sample")) {
    SLUICE_RETURN_IF_ERROR(fields.Bool("do_sample", &defaults.do_sample.emplace()));
  }
  Status status;
  ForEachSamplingField(
      [&](const SamplingField& field, auto& value) {
        if (!field.in_model || !status.ok()) return;
        if constexpr (std::is_same_v<decltype(*value), int&>) {
          if (fields.Has(field.name)) {
            status = fields.Int(field.name, WholeDefaultsIn(field.range), &value.emplace());
          }
        } else {
          status = fields.Real(field.name, DefaultsIn(field.range), &value);
        }
      },
      defaults.sampling);
  SLUICE_RETURN_IF_ERROR(status);
  return defaults;
}

}  // namespace sluice::files
