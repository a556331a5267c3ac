#include "files/model_files.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/str_cat.h"
#include "files/gguf.h"
#include "files/mapped_file.h"
#include "files/quote.h"

namespace sluice::files {
namespace {

constexpr char kTemplateKey[] = "tokenizer.chat_template";
constexpr size_t kTemplateBytesMax = 1u << 20;

Status CheckTemplate(const std::string& text) {
  if (text.size() <= kTemplateBytesMax) return OkStatus();
  return BadModel(
      StrCat("the chat template has ", text.size(), " bytes; the limit is ", kTemplateBytesMax));
}

// Tokenizer and template of a GGUF file, which may hold nothing else.
Status ReadGgufText(const GgufFile& file, ModelFiles* model) {
  SLUICE_ASSIGN_OR_RETURN(model->tokenizer, TokenizerFromGguf(file));
  SLUICE_ASSIGN_OR_RETURN(auto text, file.String(kTemplateKey));
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

}  // namespace

Result<ModelFiles> OpenModel(const std::string& path) {
  ModelFiles model;
  model.path = path;
  model.is_gguf = true;
  SLUICE_ASSIGN_OR_RETURN(const auto file, GgufFile::Open(path));
  if (Status status = ReadGgufModel(file, &model); !status.ok()) return status.WithContext(path);
  return model;
}

}  // namespace sluice::files
