#include "files/tokenizer_json_steps.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/base64.h"

namespace sluice::files {
namespace {

constexpr size_t kStepsMax = 100;
// Tokens that a post-processor puts around a text. Published ones put three at most.
constexpr size_t kEndsMax = 1024;

const Json* Find(const Json& object, const char* key) {
  auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

// The member as a string; empty when it is absent.
Result<std::string> StringOf(const Json& object, const char* key, std::string_view what) {
  const Json* value = Find(object, key);
  if (value == nullptr || value->is_null()) return std::string();
  if (!value->is_string()) return BadModel(StrCat(what, " has a ", key, " that is not a string"));
  return value->get<std::string>();
}

Status ReadPattern(const Json& json, TextStep* step) {
  const Json* pattern = Find(json, "pattern");
  if (pattern == nullptr) return OkStatus();
  for (const char* kind : {"Regex", "String"}) {
    const Json* text = pattern->is_object() ? Find(*pattern, kind) : nullptr;
    if (text == nullptr || !text->is_string()) continue;
    step->pattern = text->get<std::string>();
    step->pattern_is_regex = std::string_view(kind) == "Regex";
    return OkStatus();
  }
  return BadModel(StrCat(step->type, " has a pattern that is neither a Regex nor a String"));
}

Status ReadMetaspace(const Json& json, TextStep* step) {
  SLUICE_ASSIGN_OR_RETURN(step->content, StringOf(json, "replacement", "Metaspace"));
  SLUICE_ASSIGN_OR_RETURN(step->behavior, StringOf(json, "prepend_scheme", "Metaspace"));
  auto prefix = step->options.find("add_prefix_space");
  if (step->behavior.empty()) {
    step->behavior = prefix == step->options.end() || prefix->second ? "always" : "never";
  }
  if (step->behavior != "always" && step->behavior != "first" && step->behavior != "never") {
    return BadModel(StrCat("Metaspace has the prepend_scheme ", Quote(step->behavior),
                           "; it must be always, first or never"));
  }
  return OkStatus();
}

// The one text that the step carries, whatever its name.
Status ReadContent(const Json& json, TextStep* step) {
  for (const char* key : {"content", "prepend", "delimiter", "prefix", "suffix"}) {
    const Json* value = Find(json, key);
    if (value == nullptr) continue;
    SLUICE_ASSIGN_OR_RETURN(step->content, StringOf(json, key, step->type));
  }
  return OkStatus();
}

Result<TextStep> ReadStep(const Json& json, std::string_view what) {
  TextStep step;
  SLUICE_ASSIGN_OR_RETURN(step.type, StringOf(json, "type", what));
  for (const auto& [key, value] : json.items()) {
    if (value.is_boolean()) step.options[key] = value.get<bool>();
  }
  SLUICE_RETURN_IF_ERROR(ReadPattern(json, &step));
  SLUICE_ASSIGN_OR_RETURN(step.behavior, StringOf(json, "behavior", step.type));
  SLUICE_RETURN_IF_ERROR(ReadContent(json, &step));
  if (step.type == "Metaspace") {
    SLUICE_RETURN_IF_ERROR(ReadMetaspace(json, &step));
  } else if (step.type == "Precompiled") {
    SLUICE_ASSIGN_OR_RETURN(std::string text,
                            StringOf(json, "precompiled_charsmap", "Precompiled"));
    auto bytes = DecodeBase64(text);
    if (!bytes) return BadModel("Precompiled has a precompiled_charsmap that is not base64");
    step.precompiled = *std::move(bytes);
  } else if (step.type == "FixedLength") {
    const Json* length = Find(json, "length");
    step.content = length == nullptr ? "5" : length->dump();
  } else if (step.type == "Strip") {
    for (const char* side : {"start", "stop"}) {
      const Json* count = Find(json, side);
      if (count == nullptr) continue;
      if (!count->is_number_integer() || *count < 0 || *count > 1) {
        return BadModel(StrCat("Strip has the ", side, " ", count->dump(), "; it must be 0 or 1"));
      }
      step.options[side] = *count == 1;
    }
  }
  return step;
}

Result<int32_t> IdOf(const Json& json) {
  if (!json.is_number_integer() || json < 0 || json > std::numeric_limits<int32_t>::max()) {
    return BadModel(StrCat("the post-processor has the id ", json.dump().substr(0, 40)));
  }
  return json.get<int32_t>();
}

Status TooManyEnds() {
  return BadModel(StrCat("the post-processor puts more than ", kEndsMax, " tokens around a text"));
}

// The ids before, between and behind the texts of the template `name`, each in a list of its own.
Status ReadTemplate(const Json& json, const char* name_of_list,
                    std::vector<std::vector<int32_t>>* sides) {
  const Json* list = Find(json, name_of_list);
  const Json* tokens = Find(json, "special_tokens");
  if (list == nullptr || !list->is_array()) {
    return BadModel(StrCat("TemplateProcessing has no list \"", name_of_list, "\""));
  }
  sides->assign(1, {});
  for (const Json& item : *list) {
    if (item.is_object() && item.contains("Sequence")) {
      sides->emplace_back();
      if (sides->size() > kEndsMax) return TooManyEnds();
      continue;
    }
    const Json* token = item.is_object() ? Find(item, "SpecialToken") : nullptr;
    const Json* name = token != nullptr && token->is_object() ? Find(*token, "id") : nullptr;
    const Json* entry = nullptr;
    if (name != nullptr && name->is_string() && tokens != nullptr && tokens->is_object()) {
      entry = Find(*tokens, name->get_ref<const std::string&>().c_str());
    }
    const Json* ids = entry != nullptr && entry->is_object() ? Find(*entry, "ids") : nullptr;
    if (ids == nullptr || !ids->is_array()) {
      return BadModel("TemplateProcessing names a special token that it does not declare");
    }
    for (const Json& value : *ids) {
      SLUICE_ASSIGN_OR_RETURN(int32_t id, IdOf(value));
      sides->back().push_back(id);
      if (sides->back().size() > kEndsMax) return TooManyEnds();
    }
  }
  return OkStatus();
}

// BERT's and RoBERTa's: "cls" and "sep" are pairs of a text and an id.
Status ReadPair(const Json& json, const char* key, std::vector<int32_t>* ids) {
  const Json* pair = Find(json, key);
  if (pair == nullptr || !pair->is_array() || pair->size() != 2) {
    return BadModel(StrCat("the post-processor has no pair \"", key, "\""));
  }
  SLUICE_ASSIGN_OR_RETURN(int32_t id, IdOf((*pair)[1]));
  ids->push_back(id);
  return OkStatus();
}

}  // namespace

Status ReadTextSteps(const Json& json, std::string_view what, std::vector<TextStep>* steps) {
  if (json.is_null()) return OkStatus();
  if (!json.is_object()) return BadModel(StrCat(what, " is not an object"));
  const Json* type = Find(json, "type");
  if (type == nullptr || *type != "Sequence") {
    if (steps->size() >= kStepsMax) {
      return BadModel(StrCat(what, " has more than ", kStepsMax, " steps"));
    }
    SLUICE_ASSIGN_OR_RETURN(TextStep step, ReadStep(json, what));
    steps->push_back(std::move(step));
    return OkStatus();
  }
  for (const char* key : {"normalizers", "pretokenizers", "decoders"}) {
    const Json* list = Find(json, key);
    if (list == nullptr) continue;
    if (!list->is_array()) return BadModel(StrCat(what, " has ", key, " that are not a list"));
    for (const Json& step : *list) SLUICE_RETURN_IF_ERROR(ReadTextSteps(step, what, steps));
  }
  return OkStatus();
}

Status ReadPostProcessor(const Json& json, TokenizerData* data) {
  if (json.is_null()) return OkStatus();
  if (!json.is_object()) return BadModel("the post-processor is not an object");
  SLUICE_ASSIGN_OR_RETURN(std::string type, StringOf(json, "type", "the post-processor"));
  std::vector<int32_t> prefix;
  std::vector<int32_t> suffix;
  if (type == "Sequence") {
    const Json* list = Find(json, "processors");
    if (list == nullptr || !list->is_array()) {
      return BadModel("the post-processor is a Sequence without a list \"processors\"");
    }
    for (const Json& step : *list) SLUICE_RETURN_IF_ERROR(ReadPostProcessor(step, data));
    return OkStatus();
  }
  if (type == "TemplateProcessing") {
    std::vector<std::vector<int32_t>> sides;
    SLUICE_RETURN_IF_ERROR(ReadTemplate(json, "single", &sides));
    prefix = sides.front();
    for (size_t i = 1; i < sides.size(); ++i)
      suffix.insert(suffix.end(), sides[i].begin(), sides[i].end());
    if (Find(json, "pair") != nullptr) {
      SLUICE_RETURN_IF_ERROR(ReadTemplate(json, "pair", &sides));
      if (sides.size() == 3 && sides[0] == prefix && sides[2] == suffix)
        data->between_ids = sides[1];
    }
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    SLUICE_RETURN_IF_ERROR(ReadPair(json, "cls", &prefix));
    SLUICE_RETURN_IF_ERROR(ReadPair(json, "sep", &suffix));
    data->between_ids = suffix;
    if (type == "RobertaProcessing") data->between_ids.push_back(suffix.front());
  } else if (type != "ByteLevel") {
    return BadModel(StrCat("the post-processor ", Quote(type), " is not known"));
  }
  if (data->prefix_ids.size() + prefix.size() > kEndsMax ||
      data->suffix_ids.size() + suffix.size() > kEndsMax) {
    return TooManyEnds();
  }
  data->prefix_ids.insert(data->prefix_ids.begin(), prefix.begin(), prefix.end());
  data->suffix_ids.insert(data->suffix_ids.end(), suffix.begin(), suffix.end());
  return OkStatus();
}

}  // namespace sluice::files
