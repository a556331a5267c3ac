#include "fetch/folder_record.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/json.h"
#include "base/regular_file.h"
#include "base/str_cat.h"
#include "fetch/file_name.h"
#include "fetch/json_text.h"
#include "files/atomic_file.h"

namespace sluice::fetch {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBytesMax = 16u << 20;

std::string NameOf(const std::string& folder) { return StrCat(folder, "/.fetch.json"); }

const Json* ObjectOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? &*found : nullptr;
}

FolderRecord::Model ModelOf(const Json& json) {
  FolderRecord::Model model{TextOf(json, "commit"), TextOf(json, "gguf"), {}};
  const auto files = json.find("files");
  if (files == json.end() || !files->is_array()) return {};
  for (const Json& name : *files) {
    if (!name.is_string()) return {};
    model.files.push_back(name.get<std::string>());
  }
  return model;
}

}  // namespace

FolderRecord ReadRecord(const std::string& folder) {
  FolderRecord record;
  const auto text = ReadRegularFile(NameOf(folder), kBytesMax);
  if (!text.ok()) return record;
  const auto json = ParseJson(*text, NameOf(folder));
  if (!json.ok() || !json->is_object()) return record;
  if (const Json* files = ObjectOf(*json, "files")) {
    for (const auto& [name, file] : files->items()) {
      if (!file.is_object() || !CheckFileName(name).ok()) continue;
      const auto size = file.find("size");
      if (size == file.end() || !size->is_number_unsigned()) continue;
      record.files[name] = {size->get<uint64_t>(), ChecksumOf(TextOf(file, "checksum"))};
    }
  }
  if (const Json* models = ObjectOf(*json, "models")) {
    for (const auto& [selector, model] : models->items()) {
      if (model.is_object()) record.models[selector] = ModelOf(model);
    }
  }
  return record;
}

Status WriteRecord(const std::string& folder, const FolderRecord& record) {
  Json named = Json::object(), models = Json::object();
  for (const auto& [name, file] : record.files) {
    named[name] = {{"size", file.size}, {"checksum", file.checksum.hex}};
  }
  for (const auto& [selector, model] : record.models) {
    models[selector] = {{"commit", model.commit}, {"gguf", model.gguf}, {"files", model.files}};
  }
  const std::string text = DumpJson(Json{{"files", named}, {"models", models}}) + "\n";
  SLUICE_ASSIGN_OR_RETURN(const auto file,
                          files::AtomicFile::Create(NameOf(folder), {.replace = true}));
  SLUICE_RETURN_IF_ERROR(file->Write(std::as_bytes(std::span(text))));
  return file->Commit();
}

const FolderRecord::Model* WholeModel(const FolderRecord& record, const std::string& folder,
                                      const std::string& selector) {
  const auto model = record.models.find(selector);
  if (model == record.models.end() || model->second.commit.empty()) return nullptr;
  const auto whole = [&](const std::string& name) {
    const auto file = record.files.find(name);
    std::error_code error;
    return file != record.files.end() &&
           fs::file_size(StrCat(folder, "/", name), error) == file->second.size && !error;
  };
  const auto& names = model->second.files;
  return !names.empty() && std::all_of(names.begin(), names.end(), whole) ? &model->second
                                                                          : nullptr;
}

}  // namespace sluice::fetch
