#include "files/folder_texts.h"

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/json_fields.h"
#include "files/mapped_file.h"

namespace sluice::files {
namespace {

constexpr char kTemplateKey[] = "chat_template";

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

}  // namespace

Result<std::string> ReadOptional(const std::filesystem::path& path, size_t bytes_max) {
  auto text = ReadTextFile(path.string(), bytes_max);
  if (!text.ok() && text.status().code() == StatusCode::kNotFound) return std::string();
  return text;
}

Status CheckTemplateSize(const std::string& text) {
  if (text.size() <= kTemplateBytesMax) return OkStatus();
  return BadModel(
      StrCat("the chat template has ", text.size(), " bytes; the limit is ", kTemplateBytesMax));
}

Result<std::string> ReadFolderTemplate(const std::filesystem::path& folder,
                                       std::string_view tokenizer_config) {
  SLUICE_ASSIGN_OR_RETURN(std::string text,
                          ReadOptional(folder / "chat_template.jinja", kTemplateBytesMax));
  if (text.empty()) {
    SLUICE_ASSIGN_OR_RETURN(text, TemplateOfJson(tokenizer_config, kTokenizerConfigName));
  }
  if (text.empty()) {
    constexpr char kProcessorTemplateName[] = "chat_template.json";
    SLUICE_ASSIGN_OR_RETURN(const std::string json,
                            ReadOptional(folder / kProcessorTemplateName, kConfigBytesMax));
    SLUICE_ASSIGN_OR_RETURN(text, TemplateOfJson(json, kProcessorTemplateName));
  }
  SLUICE_RETURN_IF_ERROR(CheckTemplateSize(text));
  return text;
}

}  // namespace sluice::files
