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
#include "files/reranker.h"

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
constexpr std::pair<std::string_view, PoolingKind> kPoolingModes[] = {
    {"cls", PoolingKind::kFirst}, {"mean", PoolingKind::kMean}, {"lasttoken", PoolingKind::kLast}};
constexpr std::string_view kVector = "sentence_embedding";  // what modules call it
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

Result<Json> ReadModuleConfig(const fs::path& folder) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text,
                          ReadOptional(folder / "config.json", kConfigBytesMax));
  if (text.empty()) return BadModel(StrCat(folder.string(), " has no config.json"));
  return ParseModelJson(text, StrCat(folder.filename().string(), "/config.json"));
}

// Newer files have one name instead of the switches.
Status ReadPooling(const fs::path& folder, PoolingConfig* pooling) {
  SLUICE_ASSIGN_OR_RETURN(const Json json, ReadModuleConfig(folder));
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
  const Json* mode = fields.Find("pooling_mode");
  if (mode != nullptr && mode->is_string()) {
    found = 2;
    for (const auto& [name, kind] : kPoolingModes) {
      if (mode->get_ref<const std::string&>() != name) continue;
      pooling->kind = kind;
      found = 1;
    }
  } else if (mode != nullptr) {
    found = 2;
  }
  if (found == 1) return OkStatus();
  return BadModel(
      "the pooling is not one of cls, mean and last token, which are supported one at a time");
}

// A Dense module in the folder `name`, which reads vectors of `in` numbers.
Status ReadDense(const fs::path& folder, const std::string& name, int in, PoolingConfig* pooling) {
  SLUICE_ASSIGN_OR_RETURN(const Json json, ReadModuleConfig(folder / name));
  const JsonFields fields(json);
  DenseConfig dense;
  dense.folder = name;
  std::string activation = "torch.nn.modules.activation.Tanh";
  std::string input(kVector), output(kVector);
  bool residual = false;
  SLUICE_RETURN_IF_ERROR(fields.Int("in_features", kHiddenRange, &dense.in));
  SLUICE_RETURN_IF_ERROR(fields.Int("out_features", kHiddenRange, &dense.out));
  SLUICE_RETURN_IF_ERROR(fields.Bool("bias", &dense.bias));
  SLUICE_RETURN_IF_ERROR(fields.Text("activation_function", &activation));
  SLUICE_RETURN_IF_ERROR(fields.Text("module_input_name", &input));
  SLUICE_RETURN_IF_ERROR(fields.Text("module_output_name", &output));
  SLUICE_RETURN_IF_ERROR(fields.Bool("use_residual", &residual));
  if (dense.in != in || dense.out == 0) {
    return BadModel(StrCat(name, "/config.json has \"in_features\" ", dense.in,
                           " and \"out_features\" ", dense.out, "; the vector has ", in,
                           " numbers"));
  }
  const std::string kind = activation.substr(activation.rfind('.') + 1);
  dense.tanh = kind == "Tanh";
  if ((!dense.tanh && kind != "Identity") || residual || input != kVector || output != kVector) {
    return BadModel(StrCat(name, "/config.json has the activation ", Quote(activation),
                           residual ? " and a residual" : "", " from ", Quote(input), " to ",
                           Quote(output), "; Tanh and Identity of ", kVector,
                           " without a residual are supported"));
  }
  pooling->dense.push_back(std::move(dense));
  return OkStatus();
}

// A decoder whose answer, one of two tokens, is what is asked for.
Status ReadLogitScore(const fs::path& folder, ModelConfig* config) {
  SLUICE_ASSIGN_OR_RETURN(const Json json, ReadModuleConfig(folder));
  const JsonFields fields(json);
  const IntRange ids{0, config->vocab_size - 1};
  AnswerTokens answer{-1, -1};
  SLUICE_RETURN_IF_ERROR(fields.Int("true_token_id", ids, &answer.yes));
  SLUICE_RETURN_IF_ERROR(fields.Int("false_token_id", ids, &answer.no));
  if (answer.yes < 0 || answer.no < 0 || config->architecture != Architecture::kQwen3) {
    return BadModel(
        "a LogitScore is supported with \"true_token_id\" and \"false_token_id\" in models of "
        "Qwen3-Reranker's form");
  }
  SetAnswer(answer, config);
  return OkStatus();
}

// What comes behind the pooling: any number of Dense, then perhaps Normalize.
Status ReadBehindPooling(const std::string& folder, const Module& module, ModelConfig* config) {
  PoolingConfig& pooling = *config->pooling;
  if (module.type == "Dense" && !pooling.normalize) {
    return ReadDense(folder, module.path, config->vector_size(), &pooling);
  }
  if (module.type == "Normalize" && !pooling.normalize) {
    pooling.normalize = true;
    return OkStatus();
  }
  return BadModel(StrCat(kModules, " has the module ", Quote(module.type),
                         " behind the pooling; Dense and, as the last one, Normalize are "
                         "supported"));
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
    } else if (i == 1 && module.type == "LogitScore" && modules.size() == 2) {
      SLUICE_RETURN_IF_ERROR(ReadLogitScore(fs::path(folder) / module.path, config));
    } else if (i > 1 && !config->pooling->answer) {
      SLUICE_RETURN_IF_ERROR(ReadBehindPooling(folder, module, config));
    } else {
      return BadModel(StrCat(kModules, " has the module ", Quote(module.type), " in place ", i,
                             "; Transformer in the folder itself, Pooling, Dense and Normalize are "
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
