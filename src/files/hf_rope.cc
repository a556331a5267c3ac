#include "files/hf_rope.h"

#include <cmath>
#include <string>

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/architectures.h"
#include "files/published_values.h"

namespace sluice::files {
namespace {

constexpr int kPhi3OriginalContext = 4096;
constexpr RealRange kBetaRange{1e-3, 1e4};
constexpr RealRange kMscaleRange{0.0, 1e3};
constexpr RealRange kAttentionFactorRange{1e-3, 1e3};
constexpr RealRange kFrequencyFactorRange{1e-6, 1e6};

Status Missing(std::string_view type, std::string_view key) {
  return BadModel(StrCat("RoPE scaling of type ", Quote(type), " needs ", Quote(key)));
}

// Reads one set of RoPE parameters into `rope`, whose theta is the default. `top` is the config
// itself, where transformers 4 and Phi-3 keep some of them.
class RopeReader {
 public:
  RopeReader(const JsonFields& top, const JsonFields& rope_fields, const ModelConfig& config,
             RopeConfig* rope)
      : top_(top), fields_(rope_fields), config_(config), rope_(rope) {}

  Status Read() {
    SLUICE_RETURN_IF_ERROR(fields_.Real("rope_theta", kThetaRange, &rope_->theta));
    double portion = InfoOf(config_.architecture).hf_defaults.rotary_portion;
    for (const char* key : {"rotary_pct", "partial_rotary_factor"}) {  // the first: GPT-NeoX
      SLUICE_RETURN_IF_ERROR(top_.Real(key, {0.0, 1.0}, &portion));
    }
    SLUICE_RETURN_IF_ERROR(fields_.Real("partial_rotary_factor", {0.0, 1.0}, &portion));
    rope_->rotary_dims = static_cast<int>(config_.head_dim * portion);
    // What MiniMax-M2's files say instead.
    SLUICE_RETURN_IF_ERROR(top_.Int("rotary_dim", {2, config_.head_dim}, &rope_->rotary_dims));
    rope_->original_context = config_.context_length;

    std::string type = "default";
    SLUICE_RETURN_IF_ERROR(fields_.Text("type", &type));
    SLUICE_RETURN_IF_ERROR(fields_.Text("rope_type", &type));
    if (config_.architecture == Architecture::kPhi3 && (type == "su" || type == "yarn")) {
      type = "longrope";  // what these names meant in Phi-3's own code
    }
    if (type == "default") return OkStatus();
    if (type == "linear") return ReadFactorOnly(type, RopeScaling::kLinear);
    if (type == "dynamic" && fields_.Has("alpha")) return ReadAlpha();
    if (type == "dynamic") return ReadFactorOnly(type, RopeScaling::kDynamicNtk);
    if (type == "yarn") return ReadYarn(type);
    if (type == "llama3") return ReadLlama3(type);
    if (type == "longrope" || type == "su") return ReadLongRope(type);
    if (type == "proportional" && config_.architecture == Architecture::kGemma4)
      return ReadProportional(portion);
    return BadModel(StrCat("RoPE scaling of type ", Quote(type),
                           " is not supported; default, linear, dynamic, yarn, llama3 and longrope "
                           "are"));
  }

 private:
  Status ReadFactorOnly(std::string_view type, RopeScaling scaling) {
    if (!fields_.Has("factor")) return Missing(type, "factor");
    rope_->scaling = scaling;
    return fields_.Real("factor", kRopeFactorRange, &rope_->factor);
  }

  // Gemma 4's: some pairs of whole heads turn, as slowly as in heads that turn as a whole.
  Status ReadProportional(double portion) {
    rope_->scaling = RopeScaling::kProportional;
    rope_->portion = static_cast<float>(portion);
    return fields_.Real("factor", kRopeFactorRange, &rope_->factor);
  }

  // Hunyuan's: a base that is stretched once and for all, whatever the length.
  Status ReadAlpha() {
    double alpha = 1.0;
    SLUICE_RETURN_IF_ERROR(fields_.Real("alpha", kRopeFactorRange, &alpha));
    if (rope_->rotary_dims < 4) return BadModel("\"alpha\" needs at least 4 rotated dimensions");
    const double dims = rope_->rotary_dims;
    rope_->theta = static_cast<float>(rope_->theta * std::pow(alpha, dims / (dims - 2.0)));
    return OkStatus();
  }

  // The value beside rope_parameters goes before the one inside, as in transformers.
  Status ReadOriginalContext() {
    constexpr char kKey[] = "original_max_position_embeddings";
    if (config_.architecture == Architecture::kPhi3) rope_->original_context = kPhi3OriginalContext;
    SLUICE_RETURN_IF_ERROR(fields_.Int(kKey, kContextRange, &rope_->original_context));
    return top_.Int(kKey, kContextRange, &rope_->original_context);
  }

  // An absent factor is the ratio of the two context lengths.
  Status ReadFactor() {
    rope_->factor =
        static_cast<float>(static_cast<double>(config_.context_length) / rope_->original_context);
    return fields_.Real("factor", kRopeFactorRange, &rope_->factor);
  }

  Status ReadYarn(std::string_view type) {
    rope_->scaling = RopeScaling::kYarn;
    SLUICE_RETURN_IF_ERROR(ReadOriginalContext());
    if (!fields_.Has("factor") && !fields_.IsNull("factor")) return Missing(type, "factor");
    SLUICE_RETURN_IF_ERROR(ReadFactor());
    SLUICE_RETURN_IF_ERROR(fields_.Real("beta_fast", kBetaRange, &rope_->beta_fast));
    SLUICE_RETURN_IF_ERROR(fields_.Real("beta_slow", kBetaRange, &rope_->beta_slow));
    SLUICE_RETURN_IF_ERROR(
        fields_.Real("attention_factor", kAttentionFactorRange, &rope_->attention_factor));
    SLUICE_RETURN_IF_ERROR(fields_.Real("mscale", kMscaleRange, &rope_->mscale));
    SLUICE_RETURN_IF_ERROR(fields_.Real("mscale_all_dim", kMscaleRange, &rope_->mscale_all_dim));
    // transformers takes 0 for "not given".
    if (rope_->mscale == 0.0f) rope_->mscale.reset();
    if (rope_->mscale_all_dim == 0.0f) rope_->mscale_all_dim.reset();
    return fields_.Bool("truncate", &rope_->truncate);
  }

  Status ReadLlama3(std::string_view type) {
    rope_->scaling = RopeScaling::kLlama3;
    for (const char* key : {"factor", "low_freq_factor", "high_freq_factor"}) {
      if (!fields_.Has(key)) return Missing(type, key);
    }
    SLUICE_RETURN_IF_ERROR(ReadOriginalContext());
    SLUICE_RETURN_IF_ERROR(fields_.Real("factor", kRopeFactorRange, &rope_->factor));
    SLUICE_RETURN_IF_ERROR(
        fields_.Real("low_freq_factor", kRopeFactorRange, &rope_->low_freq_factor));
    return fields_.Real("high_freq_factor", kRopeFactorRange, &rope_->high_freq_factor);
  }

  Status ReadLongRope(std::string_view type) {
    rope_->scaling = RopeScaling::kLongRope;
    for (const char* key : {"short_factor", "long_factor"}) {
      if (!fields_.Has(key)) return Missing(type, key);
    }
    SLUICE_RETURN_IF_ERROR(ReadOriginalContext());
    SLUICE_RETURN_IF_ERROR(ReadFactor());
    SLUICE_RETURN_IF_ERROR(
        fields_.Real("attention_factor", kAttentionFactorRange, &rope_->attention_factor));
    const auto count_max = static_cast<size_t>(kHeadDimRange.max);
    SLUICE_RETURN_IF_ERROR(
        fields_.Reals("short_factor", kFrequencyFactorRange, count_max, &rope_->short_factor));
    return fields_.Reals("long_factor", kFrequencyFactorRange, count_max, &rope_->long_factor);
  }

  const JsonFields& top_;
  const JsonFields& fields_;
  const ModelConfig& config_;
  RopeConfig* const rope_;
};

// Of Gemma 3 and 4 and of ModernBERT: transformers 4 scales and bends Gemma's global layers only; 5
// says both.
Status ReadTwoRopes(const JsonFields& top, const std::optional<JsonFields>& parameters,
                    const std::optional<JsonFields>& scaling, ModelConfig* config) {
  static const Json kNothing = Json::object();
  const JsonFields nothing(kNothing);
  std::optional<JsonFields> global, local;
  if (parameters) {
    SLUICE_ASSIGN_OR_RETURN(global, parameters->Object("full_attention"));
    SLUICE_ASSIGN_OR_RETURN(local, parameters->Object("sliding_attention"));
    if (!global && !local && (parameters->Has("rope_theta") || parameters->Has("rope_type"))) {
      return BadModel(StrCat("\"rope_parameters\" of ", ArchitectureName(config->architecture),
                             " must hold \"full_attention\" and \"sliding_attention\""));
    }
  }
  if (scaling) global = scaling;
  config->local_rope.theta = kLocalTheta;
  if (config->architecture == Architecture::kModernBert) {
    SLUICE_RETURN_IF_ERROR(top.Real("global_rope_theta", kThetaRange, &config->rope.theta));
    // null stands for the other layers' own.
    if (top.IsNull("local_rope_theta")) config->local_rope.theta = config->rope.theta;
    SLUICE_RETURN_IF_ERROR(top.Real("local_rope_theta", kThetaRange, &config->local_rope.theta));
  } else {
    SLUICE_RETURN_IF_ERROR(
        top.Real("rope_local_base_freq", kThetaRange, &config->local_rope.theta));
  }
  SLUICE_RETURN_IF_ERROR(
      RopeReader(top, global ? *global : nothing, *config, &config->rope).Read());
  return RopeReader(top, local ? *local : nothing, *config, &config->local_rope).Read();
}

}  // namespace

Status ReadHfRope(const JsonFields& fields, ModelConfig* config) {
  config->rope.theta = InfoOf(config->architecture).hf_defaults.rope_theta;
  for (const char* key : {"rotary_emb_base", "rope_theta"}) {  // the first: GPT-NeoX
    SLUICE_RETURN_IF_ERROR(fields.Real(key, kThetaRange, &config->rope.theta));
  }
  SLUICE_ASSIGN_OR_RETURN(auto parameters, fields.Object("rope_parameters"));
  SLUICE_ASSIGN_OR_RETURN(const auto scaling, fields.Object("rope_scaling"));
  if (InfoOf(config->architecture).local_rope) {
    return ReadTwoRopes(fields, parameters, scaling, config);
  }
  if (parameters) {
    const Json* full = parameters->Find("full_attention");
    const Json* sliding = parameters->Find("sliding_attention");
    if (full && sliding && *full != *sliding) {
      return BadModel(StrCat("\"rope_parameters\" differ between kinds of layers, which ",
                             ArchitectureName(config->architecture), " models do not support"));
    }
    if (full || sliding) {
      SLUICE_ASSIGN_OR_RETURN(parameters,
                              parameters->Object(full ? "full_attention" : "sliding_attention"));
    }
  }
  static const Json kNothing = Json::object();
  const JsonFields nothing(kNothing);
  const JsonFields& chosen = scaling ? *scaling : parameters ? *parameters : nothing;
  return RopeReader(fields, chosen, *config, &config->rope).Read();
}

}  // namespace sluice::files
