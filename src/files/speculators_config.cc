#include "files/speculators_config.h"

#include <string>
#include <utility>

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/json_fields.h"

namespace sluice::files {
namespace {

constexpr char kKind[] = "speculators_model_type", kLayers[] = "transformer_layer_config";
// Of the head, what ReadEagleConfig reads beside the layers' config.
constexpr const char* kOfHead[] = {"draft_vocab_size",   "target_hidden_size",
                                   "mask_token_id",      "norm_before_residual",
                                   "norm_before_fc",     "fc_norm",
                                   "norm_output",        "eagle_aux_hidden_state_layer_ids",
                                   "layernorms",         "torch_dtype",
                                   "quantization_config"};

Result<EagleForm> FormOf(const std::string& kind) {
  if (kind == "eagle") return EagleForm::kFirst;
  if (kind == "eagle3") return EagleForm::kThird;
  if (kind == "peagle") return EagleForm::kParallel;
  return BadModel(
      StrCat(Quote(kKind), " is ", Quote(kind), "; eagle, eagle3 and peagle are supported"));
}

// How many tokens it was trained to guess, of the first way that it proposes tokens.
Status ReadTokens(const JsonFields& fields, int* tokens) {
  SLUICE_ASSIGN_OR_RETURN(const auto of, fields.Object("speculators_config"));
  if (!of) return OkStatus();
  const Json* const ways = of->Find("proposal_methods");
  if (ways == nullptr || !ways->is_array() || ways->empty() || !ways->front().is_object())
    return OkStatus();
  return JsonFields(ways->front()).Int("speculative_tokens", {1, 1 << 16}, tokens);
}

}  // namespace

bool IsSpeculators(const Json& config) { return JsonFields(config).Has(kKind); }

Result<SpeculatorsHead> ReadSpeculators(const Json& config) {
  const JsonFields fields(config);
  SpeculatorsHead head;
  std::string kind, type;
  SLUICE_RETURN_IF_ERROR(fields.Text(kKind, &kind));
  SLUICE_ASSIGN_OR_RETURN(head.form, FormOf(kind));
  const Json* const layers = fields.Find(kLayers);
  if (layers == nullptr || !layers->is_object())
    return BadModel(StrCat("config.json has no object ", Quote(kLayers),
                           ", which says what the layers of the head are"));
  SLUICE_RETURN_IF_ERROR(JsonFields(*layers).Text("model_type", &type));
  const bool qwen3 = type == "qwen3" && head.form != EagleForm::kFirst;
  if (type != "llama" && !qwen3)
    return BadModel(StrCat("the layers of the head are those of ", Quote(type), "; llama",
                           head.form != EagleForm::kFirst ? " and qwen3 are" : " is",
                           " supported"));
  head.config = *layers;
  head.config["architectures"] = Json::array({qwen3 ? "Qwen3ForCausalLM" : "LlamaForCausalLM"});
  head.config["tie_word_embeddings"] = false;
  for (const char* const key : kOfHead) {
    if (fields.Has(key)) head.config[key] = *fields.Find(key);
  }
  // What vLLM takes where the file does not say.
  if (head.form == EagleForm::kThird && !fields.Has("norm_before_residual"))
    head.config["norm_before_residual"] = true;
  if (head.form == EagleForm::kFirst) head.config["num_hidden_layers"] = 1;
  if (head.form == EagleForm::kParallel)
    SLUICE_RETURN_IF_ERROR(ReadTokens(fields, &head.block_tokens));
  return head;
}

}  // namespace sluice::files
