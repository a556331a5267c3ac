#include "files/hf_mamba.h"

#include <utility>
#include <vector>

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/hf_first_mamba.h"
#include "files/pattern_layers.h"

namespace sluice::files {
namespace {

constexpr IntRange kExpandRange{1, 64};
constexpr int kGraniteSharedWidth = 1024;

// What config.json calls the sizes of Mamba-2.
struct Keys {
  const char *heads, *head_dim, *groups, *state, *kernel, *conv_bias, *bias, *expand;
  const char* width = nullptr;  // of all heads, instead of `expand` times that of the model
};
constexpr Keys kOwnKeys = {"num_heads",   "head_dim",      "n_groups", "state_size",
                           "conv_kernel", "use_conv_bias", "use_bias", "expand"};
constexpr Keys kHybridKeys = {"mamba_n_heads",   "mamba_d_head", "mamba_n_groups",
                              "mamba_d_state",   "mamba_d_conv", "mamba_conv_bias",
                              "mamba_proj_bias", "mamba_expand"};
constexpr Keys kBesideKeys = {"mamba_n_heads",   "mamba_d_head", "mamba_n_groups",
                              "mamba_d_state",   "mamba_d_conv", "mamba_conv_bias",
                              "mamba_proj_bias", "mamba_expand", "mamba_d_ssm"};
constexpr Keys kPatternKeys = {"mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size",
                               "conv_kernel",     "use_conv_bias",  "use_bias", "expand"};
constexpr int kFalconH1Width = 1024;
// What transformers 5.23 takes for keys that are absent.
constexpr LinearAttentionConfig kOwnDefaults = {.key_heads = 8,
                                                .value_heads = 128,
                                                .key_head_dim = 128,
                                                .value_head_dim = 64,
                                                .conv_kernel = 4,
                                                .mamba = true,
                                                .conv_bias = true};
constexpr LinearAttentionConfig kHybridDefaults = {.key_heads = 1,
                                                   .value_heads = 128,
                                                   .key_head_dim = 256,
                                                   .value_head_dim = 0,
                                                   .conv_kernel = 4,
                                                   .mamba = true,
                                                   .conv_bias = true};

Status ReadSizes(const JsonFields& fields, const Keys& keys, ModelConfig* config) {
  LinearAttentionConfig& linear = config->linear;
  int expand = 2;
  SLUICE_RETURN_IF_ERROR(fields.Int(keys.expand, kExpandRange, &expand));
  SLUICE_RETURN_IF_ERROR(fields.Int(keys.heads, kHeadsRange, &linear.value_heads));
  SLUICE_RETURN_IF_ERROR(fields.Int(keys.groups, kHeadsRange, &linear.key_heads));
  SLUICE_RETURN_IF_ERROR(fields.Int(keys.state, kLinearHeadDimRange, &linear.key_head_dim));
  SLUICE_RETURN_IF_ERROR(fields.Int(keys.kernel, kConvKernelRange, &linear.conv_kernel));
  SLUICE_RETURN_IF_ERROR(fields.Bool(keys.conv_bias, &linear.conv_bias));
  SLUICE_RETURN_IF_ERROR(fields.Bool(keys.bias, &linear.product_bias));
  int given = keys.width == nullptr || fields.IsNull(keys.width) ? 0 : kFalconH1Width;
  if (keys.width != nullptr) SLUICE_RETURN_IF_ERROR(fields.Int(keys.width, kHiddenRange, &given));
  const Json* dim = fields.Find(keys.head_dim);
  if (dim == nullptr || !dim->is_string() || *dim != "auto") {
    SLUICE_RETURN_IF_ERROR(fields.Int(keys.head_dim, kLinearHeadDimRange, &linear.value_head_dim));
    if (linear.value_head_dim > 0) {
      if (given == 0 || linear.value_width() == given) return OkStatus();
      return BadModel(StrCat(Quote(keys.width), " is ", given, ", which is not ",
                             linear.value_heads, " heads of ", linear.value_head_dim));
    }
  }
  const int64_t width = given > 0 ? given : int64_t{expand} * config->hidden_size;
  const int64_t head = width / linear.value_heads;
  if (width % linear.value_heads != 0 || head > kLinearHeadDimRange.max) {
    return BadModel(StrCat(Quote(keys.heads), " is ", linear.value_heads, ", which divides ", width,
                           " columns into no heads of at most ", kLinearHeadDimRange.max));
  }
  linear.value_head_dim = static_cast<int>(head);
  return OkStatus();
}

// Step sizes are taken as they come.
Status CheckStepLimits(const JsonFields& fields) {
  const Json* limits = fields.Find("time_step_limit");
  if (limits == nullptr) return OkStatus();
  constexpr double kNoLimit = 1e30;
  const auto open = [&](const Json& end) {
    return end.is_null() || end.is_object() || (end.is_number() && end.get<double>() >= kNoLimit);
  };
  if (limits->is_array() && limits->size() == 2 && (*limits)[0].is_number() &&
      (*limits)[0].get<double>() == 0.0 && open((*limits)[1]))
    return OkStatus();
  return BadModel("\"time_step_limit\" is not 0 to infinity; other limits are not supported");
}

// Those that are not of attention.
Status ReadKinds(const JsonFields& fields, ModelConfig* config) {
  for (LayerConfig& layer : config->layers) layer.kind = LayerKind::kMamba;
  std::vector<int> attention;
  SLUICE_RETURN_IF_ERROR(fields.Ids("attn_layer_indices", {0, config->num_layers - 1}, &attention));
  for (const int i : attention) config->layers[static_cast<size_t>(i)].kind = LayerKind::kFull;
  const Json* types = fields.Find("layer_types");
  if (types == nullptr) types = fields.Find("layers_block_type");
  if (types == nullptr) return OkStatus();
  if (!types->is_array() || types->size() != config->layers.size()) {
    return BadModel(StrCat("\"layer_types\" is not a list of ", config->num_layers, " names"));
  }
  for (size_t i = 0; i < types->size(); ++i) {
    const Json& type = (*types)[i];
    if (type == "attention" || type == "full_attention") {
      config->layers[i].kind = LayerKind::kFull;
    } else if (type != "mamba" && type != "linear_attention") {
      return BadModel(StrCat("\"layer_types\" gives layer ", i,
                             " a type other than mamba and attention, which is not supported"));
    }
  }
  return OkStatus();
}

// What Granite's files say beside that.
Status ReadGranite(const JsonFields& fields, ModelConfig* config) {
  std::string positions;
  SLUICE_RETURN_IF_ERROR(fields.Text("position_embedding_type", &positions));
  for (LayerConfig& layer : config->layers) layer.use_rope = positions == "rope";
  // Without experts the one that every token takes is the feed-forward part.
  int experts = InfoOf(config->architecture).hf_defaults.experts;
  SLUICE_RETURN_IF_ERROR(fields.Int("num_local_experts", kExpertsRange, &experts));
  if (experts > 0) return OkStatus();
  config->intermediate_size = kGraniteSharedWidth;
  return fields.Int("shared_intermediate_size", kIntermediateRange, &config->intermediate_size);
}

// What no published file of Falcon-H1 asks for.
Status RefuseFalconH1(const JsonFields& fields) {
  for (const char* key : {"attention_bias", "mlp_bias", "mamba_proj_bias", "projectors_bias"}) {
    bool bias = false;
    SLUICE_RETURN_IF_ERROR(fields.Bool(key, &bias));
    if (bias) {
      return BadModel(StrCat(Quote(key),
                             " is true, which is not supported with the multipliers of "
                             "falcon_h1 models"));
    }
  }
  bool norm = false, before_gate = true;
  SLUICE_RETURN_IF_ERROR(fields.Bool("mamba_rms_norm", &norm));
  SLUICE_RETURN_IF_ERROR(fields.Bool("mamba_norm_before_gate", &before_gate));
  if (!norm || !before_gate) return OkStatus();
  return BadModel(
      "\"mamba_norm_before_gate\" is true, which is not supported; a norm behind the gate is");
}

Status ReadBeside(const JsonFields& fields, ModelConfig* config) {
  SLUICE_RETURN_IF_ERROR(RefuseFalconH1(fields));
  config->linear.gated_norm = false;
  SLUICE_RETURN_IF_ERROR(fields.Bool("mamba_rms_norm", &config->linear.gated_norm));
  MakeMambaBeside(config);
  return OkStatus();
}

struct PatternType {
  char letter;
  const char *name, *old_name;
  bool mixer;
  LayerKind kind;  // of a mixer
  bool experts;
};
constexpr PatternType kPatternTypes[] = {
    {'M', "linear_attention", "mamba", true, LayerKind::kMamba, false},
    {'*', "full_attention", "attention", true, LayerKind::kFull, false},
    {'-', "mlp", "mlp", false, LayerKind::kFull, false},
    {'E', "moe", "moe", false, LayerKind::kFull, true}};

// The types of the file's layers.
Result<std::vector<const PatternType*>> ReadPattern(const JsonFields& fields) {
  const Json* list = fields.Find("layers_block_type");
  if (list == nullptr) list = fields.Find("layer_types");
  std::string letters;
  SLUICE_RETURN_IF_ERROR(fields.Text("hybrid_override_pattern", &letters));
  std::vector<const PatternType*> types;
  const auto add = [&](size_t at, const auto& is) {
    for (const PatternType& type : kPatternTypes) {
      if (!is(type)) continue;
      types.push_back(&type);
      return OkStatus();
    }
    return BadModel(StrCat("layer ", at,
                           " is of a type other than mamba, attention, mlp and moe, "
                           "which is not supported"));
  };
  if (list == nullptr) {
    for (size_t i = 0; i < letters.size(); ++i) {
      SLUICE_RETURN_IF_ERROR(
          add(i, [&](const PatternType& type) { return type.letter == letters[i]; }));
    }
  } else if (list->is_array()) {
    for (size_t i = 0; i < list->size(); ++i) {
      const Json& name = (*list)[i];
      SLUICE_RETURN_IF_ERROR(add(
          i, [&](const PatternType& type) { return name == type.name || name == type.old_name; }));
    }
  }
  const auto most = static_cast<size_t>(kLayersRange.max);
  if (!types.empty() && types.size() <= most) return types;
  return BadModel(StrCat("\"layers_block_type\" and \"hybrid_override_pattern\" name ",
                         types.size(), " layers; 1 to ", most, " are legal"));
}

// A mixer and the feed-forward part behind it, where there is one, are a layer.
Status ReadPatternLayers(const JsonFields& fields, ModelConfig* config) {
  std::string activation = "silu";
  SLUICE_RETURN_IF_ERROR(fields.Text("mamba_hidden_act", &activation));
  if (activation != "silu" && activation != "swish")
    return BadModel("\"mamba_hidden_act\" is not silu, which alone is supported");
  SLUICE_ASSIGN_OR_RETURN(const auto types, ReadPattern(fields));
  std::vector<LayerConfig> layers;
  for (int i = 0; i < static_cast<int>(types.size()); ++i) {
    const PatternType& type = *types[static_cast<size_t>(i)];
    if (type.mixer) {
      AddPatternMixer(i, type.kind, &layers);
    } else {
      SLUICE_RETURN_IF_ERROR(AddPatternMlp(i, type.experts, &layers));
    }
  }
  config->num_layers = static_cast<int>(layers.size());
  config->layers = std::move(layers);
  return OkStatus();
}

}  // namespace

Status ReadHfMamba(const JsonFields& fields, const ArchitectureInfo& info, ModelConfig* config) {
  if (info.first_mamba) return ReadHfFirstMamba(fields, info, config);
  const bool own = info.layers == LayerRule::kMamba;
  const bool pattern = info.layers == LayerRule::kMambaPattern;
  if (config->activation != ActivationKind::kSilu && !pattern) {
    return BadModel("the activation of a model with layers of Mamba-2 must be silu");
  }
  const bool beside = info.layers == LayerRule::kMambaBeside;
  const MambaScales scales = config->linear.scales;
  config->linear = own || pattern ? kOwnDefaults : kHybridDefaults;
  config->linear.scales = scales;
  const Keys& keys = own ? kOwnKeys : pattern ? kPatternKeys : beside ? kBesideKeys : kHybridKeys;
  SLUICE_RETURN_IF_ERROR(ReadSizes(fields, keys, config));
  SLUICE_RETURN_IF_ERROR(CheckStepLimits(fields));
  if (own) {
    MakeMambaAlone(config);
    return OkStatus();
  }
  if (pattern) return ReadPatternLayers(fields, config);
  if (beside) return ReadBeside(fields, config);
  SLUICE_RETURN_IF_ERROR(ReadKinds(fields, config));
  const bool granite = info.architecture == Architecture::kGraniteMoeHybrid;
  return granite ? ReadGranite(fields, config) : OkStatus();
}

std::string WithoutInfinities(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    if (!in_string) {
      bool replaced = false;
      for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
        if (json.substr(i, word.size()) != word) continue;
        out += "null";
        i += word.size() - 1;
        replaced = true;
        break;
      }
      if (replaced) continue;
    }
    if (json[i] == '"') in_string = !in_string;
    out += json[i];
    if (in_string && json[i] == '\\' && i + 1 < json.size()) out += json[++i];
  }
  return out;
}

}  // namespace sluice::files
