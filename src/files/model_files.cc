#include "files/model_files.h"

#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/part_name.h"
#include "base/str_cat.h"
#include "files/config_check.h"
#include "files/folder_texts.h"
#include "files/folder_tokenizer.h"
#include "files/gguf.h"
#include "files/hf_quantization.h"
#include "files/joined_tensors.h"
#include "files/mapped_file.h"
#include "files/reranker.h"
#include "files/safetensors.h"
#include "files/sentence_transformers.h"
#include "files/synthetic_model.h"
#include "files/target_ids.h"

namespace sluice::files {
namespace {

namespace fs = std::filesystem;

constexpr char kTemplateSuffix[] = ".jinja";

bool IsFolder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// `required`: a folder without a trace of a tokenizer is an error; else its model takes and gives
// token ids.
Status ReadTokenizer(const fs::path& folder, bool required, ModelFiles* model) {
  SLUICE_ASSIGN_OR_RETURN(const std::string config,
                          ReadOptional(folder / kTokenizerConfigName, kConfigBytesMax));
  if (!required && !MeansTokenizer(folder)) {
    model->tokenizer.model = TokenizerModel::kNone;
  } else {
    SLUICE_ASSIGN_OR_RETURN(model->tokenizer, ReadFolderTokenizer(folder, config));
  }
  SLUICE_ASSIGN_OR_RETURN(model->chat_template, ReadFolderTemplate(folder, config));
  return OkStatus();
}

Status ReadTokenizerJson(const fs::path& path, ModelFiles* model) {
  const fs::path folder = path.parent_path();
  SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path.string(), kTokenizerBytesMax));
  SLUICE_ASSIGN_OR_RETURN(const std::string config,
                          ReadOptional(folder / kTokenizerConfigName, kConfigBytesMax));
  SLUICE_ASSIGN_OR_RETURN(model->tokenizer, TokenizerFromJson(text, config));
  SLUICE_ASSIGN_OR_RETURN(model->chat_template, ReadFolderTemplate(folder, config));
  return OkStatus();
}

Status ReadGgufText(const GgufFile& file, ModelFiles* model) {
  SLUICE_ASSIGN_OR_RETURN(model->tokenizer, TokenizerFromGguf(file));
  SLUICE_ASSIGN_OR_RETURN(auto text, file.String("tokenizer.chat_template"));
  model->chat_template = std::move(text).value_or("");
  return CheckTemplateSize(model->chat_template);
}

Status ReadGgufModel(const std::shared_ptr<const GgufFile>& file, ModelFiles* model) {
  SLUICE_ASSIGN_OR_RETURN(model->config, ConfigFromGguf(*file));
  SLUICE_ASSIGN_OR_RETURN(model->generation_defaults, GenerationDefaultsFromGguf(*file));
  SLUICE_RETURN_IF_ERROR(ReadGgufText(*file, model));
  model->tensors = file;
  SLUICE_ASSIGN_OR_RETURN(model->config.target_ids, ReadTargetIds(*file, model->config.vocab_size));
  return OkStatus();
}

// With those of modules behind the pooling.
Result<std::shared_ptr<const TensorSource>> OpenTensors(const fs::path& folder,
                                                        const ModelConfig& config) {
  SLUICE_ASSIGN_OR_RETURN(auto model, OpenSafetensors(folder.string()));
  if (!config.pooling || config.pooling->dense.empty()) return model;
  std::vector<JoinedSource> sources;
  sources.push_back({"", std::move(model)});
  for (const DenseConfig& dense : config.pooling->dense) {
    SLUICE_ASSIGN_OR_RETURN(auto source, OpenSafetensors((folder / dense.folder).string()));
    sources.push_back({StrCat(dense.folder, "/"), std::move(source)});
  }
  return JoinTensors(std::move(sources));
}

Status ReadFolder(const fs::path& folder, ModelFiles* model) {
  SLUICE_ASSIGN_OR_RETURN(const std::string config,
                          ReadTextFile((folder / "config.json").string(), kConfigBytesMax));
  SLUICE_ASSIGN_OR_RETURN(const std::string generation,
                          ReadOptional(folder / "generation_config.json", kConfigBytesMax));
  SLUICE_ASSIGN_OR_RETURN(model->config, ConfigFromJson(config, generation));
  if (!model->config.quantization) {
    SLUICE_ASSIGN_OR_RETURN(const std::string quantization,
                            ReadOptional(folder / "hf_quant_config.json", kConfigBytesMax));
    SLUICE_ASSIGN_OR_RETURN(model->config.quantization, ReadModelOptConfig(quantization));
  }
  SLUICE_RETURN_IF_ERROR(ReadSentenceTransformers(folder.string(), &model->config));
  SLUICE_ASSIGN_OR_RETURN(model->generation_defaults, GenerationDefaultsFromJson(generation));
  SLUICE_RETURN_IF_ERROR(ReadTokenizer(folder, /*required=*/false, model));
  SLUICE_RETURN_IF_ERROR(ReadReranker(folder.string(), model->tokenizer, &model->config));
  SLUICE_ASSIGN_OR_RETURN(model->tensors, OpenTensors(folder, model->config));
  model->config.dtype = MostCommonDType(model->tensors->tensors());
  SLUICE_ASSIGN_OR_RETURN(model->config.target_ids,
                          ReadTargetIds(*model->tensors, model->config.vocab_size));
  return OkStatus();
}

// Puts the path before a message that does not have it yet.
Status AboutPath(const Status& status, const std::string& path) {
  if (status.ok() || status.message().starts_with(path)) return status;
  return status.WithContext(path);
}

}  // namespace

Result<ModelFiles> OpenModel(const std::string& path) {
  if (IsSyntheticPath(path)) return OpenSynthetic(path);
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
  if (IsSyntheticPath(path)) {
    SLUICE_ASSIGN_OR_RETURN(model.tokenizer, SyntheticTokenizer(path));
  } else if (IsFolder(path)) {
    status = ReadTokenizer(path, /*required=*/true, &model);
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

std::string ModelName(const ModelFiles& model) {
  if (IsSyntheticPath(model.path)) return model.path;
  const fs::path path(model.path);
  const std::string file = path.filename().string();
  const std::optional<PartName> part = ParsePartName(file);
  return part && model.is_gguf ? std::string(part->stem) : path.stem().string();
}

}  // namespace sluice::files
