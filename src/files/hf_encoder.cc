#include "files/hf_encoder.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::files {
namespace {

constexpr int kBertTokenTypes = 2;
constexpr int kRobertaPadding = 1;
constexpr int kMPNetBuckets = 32;
constexpr IntRange kBucketsRange{4, 1024};
constexpr size_t kLabelsMax = 4096;

bool Classifies(const JsonFields& fields) {
  const Json* classes = fields.Find("architectures");
  return classes != nullptr && classes->is_array() && !classes->empty() &&
         classes->front().is_string() &&
         classes->front().get_ref<const std::string&>().ends_with("ForSequenceClassification");
}

// Which vector the head of a classifier reads; that of BERT's form reads the first token's.
Status ReadClassifierPooling(const JsonFields& fields, ModelConfig* config) {
  config->pooling->kind = PoolingKind::kFirst;
  if (config->architecture != Architecture::kModernBert) return OkStatus();
  std::string pooling = "cls", activation = "gelu";
  SLUICE_RETURN_IF_ERROR(fields.Text("classifier_pooling", &pooling));
  SLUICE_RETURN_IF_ERROR(fields.Text("classifier_activation", &activation));
  bool bias = false;
  SLUICE_RETURN_IF_ERROR(fields.Bool("classifier_bias", &bias));
  if (pooling == "mean") config->pooling->kind = PoolingKind::kMean;
  if ((pooling == "cls" || pooling == "mean") && activation == "gelu" && !bias) return OkStatus();
  return BadModel(StrCat("\"classifier_pooling\" is ", Quote(pooling),
                         ", \"classifier_activation\" ", Quote(activation),
                         " and \"classifier_bias\" ", bias ? "true" : "false",
                         "; cls or mean, gelu and false are supported"));
}

Status ReadLabels(const JsonFields& fields, ModelConfig* config) {
  if (!Classifies(fields)) return OkStatus();
  SLUICE_RETURN_IF_ERROR(ReadClassifierPooling(fields, config));
  config->labels = {"LABEL_0", "LABEL_1"};  // what transformers takes for a missing key
  const Json* labels = fields.Find("id2label");
  if (labels == nullptr) return OkStatus();
  if (!labels->is_object() || labels->empty() || labels->size() > kLabelsMax) {
    return BadModel(StrCat("\"id2label\" is not an object of 1 to ", kLabelsMax, " labels"));
  }
  config->labels.assign(labels->size(), "");
  for (size_t i = 0; i < labels->size(); ++i) {
    const auto label = labels->find(StrCat(i));
    if (label == labels->end() || !label->is_string()) {
      return BadModel(StrCat("\"id2label\" has no label ", i, " of ", labels->size()));
    }
    config->labels[i] = label->get<std::string>();
  }
  return OkStatus();
}

Status ReadPositions(const JsonFields& fields, const ArchitectureInfo& info, ModelConfig* config) {
  std::string positions = "absolute";
  SLUICE_RETURN_IF_ERROR(fields.Text("position_embedding_type", &positions));
  if (positions != "absolute") {
    return BadModel(
        StrCat("\"position_embedding_type\" is ", Quote(positions), "; absolute is supported"));
  }
  config->position_rows = config->context_length;
  if (!info.positions_behind_padding) return OkStatus();
  // MPNet's own code always takes 1, whatever the file says.
  int padding = kRobertaPadding;
  if (config->architecture != Architecture::kMPNet) {
    SLUICE_RETURN_IF_ERROR(fields.Int("pad_token_id", {0, config->position_rows - 2}, &padding));
  }
  config->first_position = padding + 1;
  config->context_length -= config->first_position;
  if (config->context_length > 0) return OkStatus();
  return BadModel(StrCat("\"max_position_embeddings\" is ", config->position_rows, "; more than ",
                         config->first_position, " are needed"));
}

}  // namespace

Status ReadHfEncoder(const JsonFields& fields, const ArchitectureInfo& info, ModelConfig* config) {
  bool decoder = false, norm_bias = false;
  SLUICE_RETURN_IF_ERROR(fields.Bool("is_decoder", &decoder));
  if (decoder)
    return BadModel("\"is_decoder\" is true; an encoder that generates is not supported");
  SLUICE_RETURN_IF_ERROR(fields.Bool("norm_bias", &norm_bias));
  if (norm_bias) return BadModel("\"norm_bias\" is true; norms without biases are supported");
  config->pooling.emplace();
  if (info.layers == LayerRule::kNoRope) {
    SLUICE_RETURN_IF_ERROR(ReadPositions(fields, info, config));
  }
  if (info.token_types) {
    config->token_types = kBertTokenTypes;
    SLUICE_RETURN_IF_ERROR(fields.Int("type_vocab_size", kTokenTypesRange, &config->token_types));
  }
  if (info.architecture == Architecture::kMPNet) {
    config->bias_buckets = kMPNetBuckets;
    SLUICE_RETURN_IF_ERROR(
        fields.Int("relative_attention_num_buckets", kBucketsRange, &config->bias_buckets));
    if (config->bias_buckets != kMPNetBuckets) {
      // The model's own code sorts distances into 32 whatever the table's size.
      return BadModel(StrCat("\"relative_attention_num_buckets\" is ", config->bias_buckets, "; ",
                             kMPNetBuckets, " is supported"));
    }
  }
  return ReadLabels(fields, config);
}

Status SpellNomicBert(Json* config) {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"n_embd", "hidden_size"},
      {"n_layer", "num_hidden_layers"},
      {"n_head", "num_attention_heads"},
      {"n_inner", "intermediate_size"},
      {"n_positions", "max_position_embeddings"},
      {"layer_norm_epsilon", "layer_norm_eps"},
      {"rotary_emb_base", "rope_theta"}};
  for (const auto& [theirs, ours] : kNames) {
    if (config->contains(theirs) && !config->contains(ours)) (*config)[ours] = (*config)[theirs];
  }
  const JsonFields fields(*config);
  for (const char* key : {"prenorm", "parallel_block", "qkv_proj_bias", "mlp_fc1_bias",
                          "mlp_fc2_bias", "use_rms_norm", "rotary_emb_interleaved", "causal"}) {
    bool on = false;
    SLUICE_RETURN_IF_ERROR(fields.Bool(key, &on));
    if (on)
      return BadModel(StrCat(Quote(key),
                             " is true; the form of Nomic Embed 1 and 1.5, where it "
                             "is false, is supported"));
  }
  int experts = 0;
  SLUICE_RETURN_IF_ERROR(fields.Int("num_experts", kExpertsRange, &experts));
  if (experts > 0) {
    return BadModel(
        StrCat("\"num_experts\" is ", experts, "; NomicBERTs without experts are supported"));
  }
  double rotated = 1.0, scaling = 0.0;
  SLUICE_RETURN_IF_ERROR(fields.Real("rotary_emb_fraction", {0.0, 1.0}, &rotated));
  if (rotated != 1.0) {
    return BadModel(StrCat("\"rotary_emb_fraction\" is ", rotated, "; 1 is supported"));
  }
  std::string activation = "swiglu";
  SLUICE_RETURN_IF_ERROR(fields.Text("activation_function", &activation));
  if (activation != "swiglu") {
    return BadModel(
        StrCat("\"activation_function\" is ", Quote(activation), "; swiglu is supported"));
  }
  // Where RoPE is scaled for longer texts, these are the ones that it leaves as they are.
  SLUICE_RETURN_IF_ERROR(fields.Real("rotary_scaling_factor", kRopeFactorRange, &scaling));
  int trained = kContextRange.max;
  SLUICE_RETURN_IF_ERROR(fields.Int("max_trained_positions", kContextRange, &trained));
  if (scaling > 0.0 && config->contains("max_position_embeddings")) {
    int positions = trained;
    SLUICE_RETURN_IF_ERROR(fields.Int("max_position_embeddings", kContextRange, &positions));
    (*config)["max_position_embeddings"] = std::min(positions, trained);
  }
  return OkStatus();
}

}  // namespace sluice::files
