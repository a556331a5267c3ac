#include "files/model_files.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/str_cat.h"
#include "files/config_check.h"
#include "files/gguf.h"
#include "files/json_fields.h"
#include "files/mapped_file.h"
#include "files/quote.h"
#include "files/safetensors.h"

namespace sluice::files {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTemplateBytesMax = 1u << 20;
constexpr size_t kConfigBytesMax = 16u << 20;
constexpr size_t kTokenizerBytesMax = 128u << 20;
constexpr char kTemplateKey[] = "chat_template";
constexpr char kTokenizerName[] = "tokenizer.json";
constexpr char kTokenizerConfigName[] = "tokenizer_config.json";
constexpr char kTemplateSuffix[] = ".jinja";

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}
bool IsFolder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// The text of a file that may be absent; then empty.
Result<std::string> ReadOptional(const fs::path& path, size_t bytes_max) {
  auto text = ReadTextFile(path.string(), bytes_max);
  if (!text.ok() && text.status().code() == StatusCode::kNotFound) return std::string();
  return text;
}

// A template as JSON files hold it: a string, or a list of named ones of which "default" is meant.
Result<std::string> TemplateOf(const JsonFields& fields) {
  const Json* value = fields.Find(kTemplateKey);
  if (!value) return std::string();
  if (value->is_string()) return value->get<std::string>();
  const Status wrong = BadModel(StrCat(
      Quote(kTemplateKey), " is neither a string nor a list of objects with name and template"));
  if (!value->is_array()) return wrong;
  for (const Json& item : *value) {
    if (!item.is_object()) return wrong;
    std::string name, text;
    const JsonFields named(item);
    SLUICE_RETURN_IF_ERROR(named.Text("name", &name));
    SLUICE_RETURN_IF_ERROR(named.Text("template", &text));
    if (name == "default") return text;
  }
  return std::string();
}

Result<std::string> TemplateOfJson(std::string_view text, std::string_view what) {
  if (text.empty()) return std::string();
  SLUICE_ASSIGN_OR_RETURN(const Json json, ParseModelJson(text, what));
  auto found = TemplateOf(JsonFields(json));
  if (!found.ok()) return found.status().WithContext(what);
  return found;
}

Status CheckTemplate(const std::string& text) {
  if (text.size() <= kTemplateBytesMax) return OkStatus();
  return BadModel(
      StrCat("the chat template has ", text.size(), " bytes; the limit is ", kTemplateBytesMax));
}

// The chat template of a folder, from the newest place that holds one.
Status ReadFolderTemplate(const fs::path& folder, std::string_view tokenizer_config,
                          std::string* text) {
  SLUICE_ASSIGN_OR_RETURN(*text, ReadOptional(folder / "chat_template.jinja", kTemplateBytesMax));
  if (text->empty()) {
    SLUICE_ASSIGN_OR_RETURN(*text, TemplateOfJson(tokenizer_config, kTokenizerConfigName));
  }
  if (text->empty()) {
    constexpr char kProcessorTemplateName[] = "chat_template.json";
    SLUICE_ASSIGN_OR_RETURN(const std::string json,
                            ReadOptional(folder / kProcessorTemplateName, kConfigBytesMax));
    SLUICE_ASSIGN_OR_RETURN(*text, TemplateOfJson(json, kProcessorTemplateName));
  }
  return CheckTemplate(*text);
}

Status ReadTokenizerJson(const fs::path& path, ModelFiles* model) {
  const fs::path folder = path.parent_path();
  SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path.string(), kTokenizerBytesMax));
  SLUICE_ASSIGN_OR_RETURN(const std::string config,
                          ReadOptional(folder / kTokenizerConfigName, kConfigBytesMax));
  SLUICE_ASSIGN_OR_RETURN(model->tokenizer, TokenizerFromJson(text, config));
  return ReadFolderTemplate(folder, config, &model->chat_template);
}

Status ReadGgufText(const GgufFile& file, ModelFiles* model) {
  SLUICE_ASSIGN_OR_RETURN(model->tokenizer, TokenizerFromGguf(file));
  SLUICE_ASSIGN_OR_RETURN(auto text, file.String("tokenizer.chat_template"));
  model->chat_template = std::move(text).value_or("");
  return CheckTemplate(model->chat_template);
}

Status ReadGgufModel(const std::shared_ptr<const GgufFile>& file, ModelFiles* model) {
  SLUICE_ASSIGN_OR_RETURN(const auto parts, file->Integer("split.count"));
  if (parts.value_or(1) > 1) {
    return BadModel(StrCat("the file is one of ", *parts,
                           " parts; join them with llama-gguf-split --merge first"));
  }
  SLUICE_ASSIGN_OR_RETURN(model->config, ConfigFromGguf(*file));
  SLUICE_ASSIGN_OR_RETURN(model->generation_defaults, GenerationDefaultsFromGguf(*file));
  SLUICE_RETURN_IF_ERROR(ReadGgufText(*file, model));
  model->tensors = file;
  return OkStatus();
}

Status ReadFolder(const fs::path& folder, ModelFiles* model) {
  SLUICE_ASSIGN_OR_RETURN(const std::string config,
                          ReadTextFile((folder / "config.json").string(), kConfigBytesMax));
  SLUICE_ASSIGN_OR_RETURN(const std::string generation,
                          ReadOptional(folder / "generation_config.json", kConfigBytesMax));
  SLUICE_ASSIGN_OR_RETURN(model->config, ConfigFromJson(config, generation));
  SLUICE_ASSIGN_OR_RETURN(model->generation_defaults, GenerationDefaultsFromJson(generation));
  SLUICE_RETURN_IF_ERROR(ReadTokenizerJson(folder / kTokenizerName, model));
  SLUICE_ASSIGN_OR_RETURN(model->tensors, OpenSafetensors(folder.string()));
  model->config.dtype = MostCommonDType(model->tensors->tensors());
  return OkStatus();
}

// Puts the path before a message that does not have it yet.
Status AboutPath(const Status& status, const std::string& path) {
  if (status.ok() || status.message().starts_with(path)) return status;
  return status.WithContext(path);
}

Result<fs::path> CacheFolder() {
  if (const char* cache = std::getenv("SLUICE_CACHE"); cache && *cache) return fs::path(cache);
  if (const char* home = std::getenv("HOME"); home && *home) {
    return fs::path(home) / ".cache" / "sluice";
  }
  return Status(StatusCode::kNotFound,
                "neither SLUICE_CACHE nor HOME is set, so there is no model cache");
}

// What a user may name in the cache, at most a handful; "; it holds A, B" or empty.
std::string CacheListing(const fs::path& cache) {
  constexpr size_t kListedMax = 8;
  constexpr int kSeenMax = 1000;
  std::vector<std::string> names;
  std::error_code error;
  int seen = 0;
  for (fs::directory_iterator entry(cache, error);
       !error && entry != fs::directory_iterator() && ++seen < kSeenMax; entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.extension() == ".gguf" || Exists(path / "config.json")) {
      names.push_back(path.filename().string());
    }
  }
  if (names.empty()) return "";
  std::sort(names.begin(), names.end());
  if (names.size() > kListedMax) names.resize(kListedMax);
  std::string listing = "; it holds ";
  for (const std::string& name : names) {
    if (&name != &names.front()) listing += ", ";
    listing += Quote(name);
  }
  return listing;
}

}  // namespace

Result<ModelFiles> OpenModel(const std::string& path) {
  ModelFiles model;
  model.path = path;
  if (IsFolder(path)) {
    if (Status status = ReadFolder(path, &model); !status.ok()) return AboutPath(status, path);
    return model;
  }
  model.is_gguf = true;
  SLUICE_ASSIGN_OR_RETURN(const auto file, GgufFile::Open(path));
  if (Status status = ReadGgufModel(file, &model); !status.ok()) return AboutPath(status, path);
  return model;
}

Result<ModelFiles> OpenText(const std::string& path) {
  ModelFiles model;
  model.path = path;
  Status status;
  if (IsFolder(path)) {
    status = ReadTokenizerJson(fs::path(path) / kTokenizerName, &model);
  } else if (path.ends_with(kTemplateSuffix)) {
    SLUICE_ASSIGN_OR_RETURN(model.chat_template, ReadTextFile(path, kTemplateBytesMax));
  } else if (path.ends_with(".json")) {
    status = ReadTokenizerJson(path, &model);
  } else {
    model.is_gguf = true;
    SLUICE_ASSIGN_OR_RETURN(const auto file, GgufFile::Open(path));
    status = ReadGgufText(*file, &model);
  }
  if (!status.ok()) return AboutPath(status, path);
  return model;
}

Result<std::string> ResolveModel(const std::string& name_or_path) {
  if (name_or_path.empty()) return InvalidArgument("the model's name is empty");
  if (Exists(name_or_path)) return name_or_path;
  const fs::path name(name_or_path);
  const Status missing(StatusCode::kNotFound, StrCat("there is no file or folder ", name_or_path));
  const bool leads_out = std::find(name.begin(), name.end(), "..") != name.end();
  if (name.is_absolute() || leads_out || name_or_path.starts_with("./")) return missing;
  SLUICE_ASSIGN_OR_RETURN(const fs::path cache, CacheFolder());
  for (const char* suffix : {"", ".gguf"}) {
    const fs::path candidate = cache / StrCat(name_or_path, suffix);
    if (Exists(candidate)) return candidate.string();
  }
  return Status(StatusCode::kNotFound, StrCat(missing.message(), ", and no such name in the cache ",
                                              cache.string(), CacheListing(cache)));
}

}  // namespace sluice::files
