#include "files/sentence_transformers.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/folder_texts.h"
#include "files/json_fields.h"

namespace sluice::files {
namespace {

namespace fs = std::filesystem;

constexpr char kModules[] = "modules.json";
constexpr char kTransformerOptions[] = "sentence_bert_config.json";
constexpr size_t kModulesMax = 16;

// The kinds of pooling by their switches in the file; all but one are off.
constexpr std::pair<std::string_view, PoolingKind> kPoolings[] = {
    {"pooling_mode_cls_token", PoolingKind::kFirst},
    {"pooling_mode_mean_tokens", PoolingKind::kMean},
    {"pooling_mode_lasttoken", PoolingKind::kLast}};
constexpr std::array<std::string_view, 3> kOtherPoolings = {"pooling_mode_max_tokens",
                                                            "pooling_mode_mean_sqrt_len_tokens",
                                                            "pooling_mode_weightedmean_tokens"};

struct Module {
  std::string type;  // without the packages before it
  std::string path;  // within the folder; empty: the folder itself
};

Result<std::vector<Module>> ReadModules(const std::string& text) {
  // The reader of folders wants an object; this file is the one that is a list.
  SLUICE_ASSIGN_OR_RETURN(const Json json,
                          ParseModelJson(StrCat("{\"modules\": ", text, "}"), kModules));
  const Json* list = JsonFields(json).Find("modules");
  if (list == nullptr || !list->is_array() || list->size() > kModulesMax) {
    return BadModel(StrCat(kModules, " is not a list of at most ", kModulesMax, " modules"));
  }
  std::vector<Module> modules;
  for (const Json& item : *list) {
    if (!item.is_object()) return BadModel(StrCat(kModules, " has a module that is no object"));
    Module& module = modules.emplace_back();
    const JsonFields fields(item);
    SLUICE_RETURN_IF_ERROR(fields.Text("type", &module.type));
    SLUICE_RETURN_IF_ERROR(fields.Text("path", &module.path));
    module.type = module.type.substr(module.type.rfind('.') + 1);
    if (module.path.find('/') != std::string::npos || module.path == "..") {
      return BadModel(StrCat(kModules, " has a module at ", Quote(module.path),
                             "; a folder beside the file is needed"));
    }
  }
  return modules;
}

Status ReadPooling(const fs::path& folder, PoolingConfig* pooling) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text,
                          ReadOptional(folder / "config.json", kConfigBytesMax));
  if (text.empty()) return BadModel(StrCat(folder.string(), " has no config.json"));
  SLUICE_ASSIGN_OR_RETURN(const Json json, ParseModelJson(text, "the pooling's config.json"));
  const JsonFields fields(json);
  int found = 0;
  for (const auto& [key, kind] : kPoolings) {
    bool on = false;
    SLUICE_RETURN_IF_ERROR(fields.Bool(key, &on));
    if (on) pooling->kind = kind;
    found += on ? 1 : 0;
  }
  for (const std::string_view key : kOtherPoolings) {
    bool on = false;
    SLUICE_RETURN_IF_ERROR(fields.Bool(key, &on));
    found += on ? 2 : 0;
  }
  if (found == 1) return OkStatus();
  return BadModel(
      "the pooling is not one of cls, mean and last token, which are supported one at a time");
}

}  // namespace

Status ReadSentenceTransformers(const std::string& folder, ModelConfig* config) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text,
                          ReadOptional(fs::path(folder) / kModules, kConfigBytesMax));
  if (text.empty()) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Module> modules, ReadModules(text));
  config->pooling.emplace();
  for (size_t i = 0; i < modules.size(); ++i) {
    const Module& module = modules[i];
    if (i == 0 && module.type == "Transformer" && module.path.empty()) continue;
    if (i == 1 && module.type == "Pooling") {
      SLUICE_RETURN_IF_ERROR(ReadPooling(fs::path(folder) / module.path, &*config->pooling));
    } else if (i > 1 && module.type == "Normalize" && i + 1 == modules.size()) {
      config->pooling->normalize = true;
    } else {
      return BadModel(StrCat(kModules, " has the module ", Quote(module.type), " in place ", i,
                             "; Transformer in the folder itself, Pooling and Normalize are "
                             "supported, in this order"));
    }
  }
  if (modules.size() < 2) return BadModel(StrCat(kModules, " names no pooling"));
  SLUICE_ASSIGN_OR_RETURN(const std::string options,
                          ReadOptional(fs::path(folder) / kTransformerOptions, kConfigBytesMax));
  if (options.empty()) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const Json json, ParseModelJson(options, kTransformerOptions));
  int longest = config->context_length;
  SLUICE_RETURN_IF_ERROR(JsonFields(json).Int("max_seq_length", kContextRange, &longest));
  config->context_length = std::min(config->context_length, longest);
  return OkStatus();
}

}  // namespace sluice::files
