#include "files/dflash_config.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/config_check.h"
#include "files/json_fields.h"

namespace sluice::files {
namespace {

constexpr std::string_view kClass = "DFlashDraftModel";
constexpr char kDflashKey[] = "dflash_config";
// What heads that are derived from this form have, without which their drafts would be wrong.
constexpr std::string_view kOthers[] = {
    "fc_layernorm",           "attention_sink_bias", "use_swa",           "causal",
    "selector_rank",          "conv_kernel_size",    "output_multiplier", "input_embedding_scale",
    "final_logit_softcapping"};
constexpr IntRange kBlockRange = {2, 1 << 10};
constexpr IntRange kTokenRange = {0, (1 << 30)};

// A field stands in "dflash_config" or beside it.
class HeadFields {
 public:
  HeadFields(const JsonFields& beside, const std::optional<JsonFields>& within)
      : beside_(beside), within_(within) {}
  const JsonFields* Of(std::string_view key) const {
    if (within_ && within_->Has(key)) return &*within_;
    return beside_.Has(key) ? &beside_ : nullptr;
  }

 private:
  const JsonFields& beside_;
  const std::optional<JsonFields>& within_;
};

bool IsNothing(const Json& value) {
  return value.is_null() || (value.is_boolean() && !value.get<bool>()) ||
         (value.is_number() && value.get<double>() == 0.0);
}

Status CheckOthers(const HeadFields& fields) {
  for (const std::string_view key : kOthers) {
    const JsonFields* const in = fields.Of(key);
    const Json* const value = in == nullptr ? nullptr : in->Find(key);
    if (value == nullptr || IsNothing(*value)) continue;
    const bool factor = key.ends_with("multiplier") || key.ends_with("scale");
    if (factor && value->is_number() && value->get<double>() == 1.0) continue;
    return BadModel(StrCat(Quote(key), " of the head is not supported: ", kClass,
                           " in the form of its paper is"));
  }
  const JsonFields* const in = fields.Of("is_causal");
  const Json* const causal = in == nullptr ? nullptr : in->Find("is_causal");
  if (causal == nullptr || IsNothing(*causal)) return OkStatus();
  return BadModel(
      "\"is_causal\" is true: tokens of its blocks see those before them alone, which "
      "is not supported for heads of DFlash's form");
}

// Spread evenly from the second layer to the third from the end, as its trainer chooses them.
Status UsualLayers(const JsonFields& fields, std::vector<int>* layers) {
  int of_model = 0, own = 0;
  SLUICE_RETURN_IF_ERROR(fields.Int("num_target_layers", kLayersRange, &of_model));
  SLUICE_RETURN_IF_ERROR(fields.Int("num_hidden_layers", kLayersRange, &own));
  if (of_model == 0 || own == 0)
    return BadModel(
        "the head does not say which layers of the model it reads: there is neither "
        "\"target_layer_ids\" nor \"num_target_layers\"");
  if (own == 1) {
    layers->push_back(of_model / 2);
    return OkStatus();
  }
  for (int i = 0; i < own; ++i) {
    // Halves go to the even number, as Python's round has them.
    layers->push_back(static_cast<int>(std::nearbyint(1.0 + i * (of_model - 4.0) / (own - 1))));
  }
  return OkStatus();
}

Status ReadLayers(const HeadFields& fields, const JsonFields& beside, std::vector<int>* layers) {
  constexpr std::string_view kKey = "target_layer_ids";
  const JsonFields* const in = fields.Of(kKey);
  if (in != nullptr) SLUICE_RETURN_IF_ERROR(in->Ids(kKey, {0, kLayersRange.max - 1}, layers));
  const bool usual = layers->empty();
  if (usual) SLUICE_RETURN_IF_ERROR(UsualLayers(beside, layers));
  const bool ascending =
      std::adjacent_find(layers->begin(), layers->end(), std::greater_equal<>()) == layers->end();
  if (ascending && layers->front() >= 0 && layers->size() <= kHeadLayersMax) return OkStatus();
  if (usual) {
    return BadModel(StrCat(Quote(kKey), " is missing, and the model has too few layers for the ",
                           layers->size(), " that a head like this usually reads; name them"));
  }
  return BadModel(StrCat(Quote(kKey), " has ", layers->size(), " layers",
                         ascending ? "" : ", which do not ascend", "; a head reads 1 to ",
                         kHeadLayersMax, ", each behind the one before"));
}

}  // namespace

std::string ClassOf(const Json& config) {
  const Json* classes = JsonFields(config).Find("architectures");
  const bool named = classes != nullptr && classes->is_array() && !classes->empty() &&
                     classes->front().is_string();
  return named ? classes->front().get<std::string>() : "";
}

bool IsDFlash(const Json& config) {
  return ClassOf(config).starts_with("DFlash") || JsonFields(config).Has(kDflashKey);
}

Result<DFlashHead> ReadDFlash(Json config) {
  if (ClassOf(config) != kClass)
    return BadModel(StrCat("config.json names a head of DFlash's kind, ", Quote(ClassOf(config)),
                           "; ", kClass, " is supported"));
  DFlashHead head;
  const JsonFields beside(config);
  SLUICE_ASSIGN_OR_RETURN(const auto within, beside.Object(kDflashKey));
  const HeadFields fields(beside, within);
  SLUICE_RETURN_IF_ERROR(CheckOthers(fields));
  SLUICE_RETURN_IF_ERROR(ReadLayers(fields, beside, &head.layers));
  const JsonFields* in = fields.Of("mask_token_id");
  if (in == nullptr)
    return BadModel(
        "config.json names no mask token (\"mask_token_id\"); the download may be "
        "incomplete");
  SLUICE_RETURN_IF_ERROR(in->Int("mask_token_id", kTokenRange, &head.mask_token));
  in = fields.Of("block_size");
  if (in != nullptr) SLUICE_RETURN_IF_ERROR(in->Int("block_size", kBlockRange, &head.block_tokens));
  head.config = std::move(config);
  head.config.erase(kDflashKey);
  head.config["architectures"] = Json::array({"Qwen3ForCausalLM"});
  head.config["model_type"] = "qwen3";
  head.config["tie_word_embeddings"] = false;
  return head;
}

}  // namespace sluice::files
