#include "files/eagle_files.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string_view>
#include <utility>

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/config_check.h"
#include "files/folder_texts.h"
#include "files/json_fields.h"
#include "files/mapped_file.h"
#include "files/safetensors.h"
#include "files/target_ids.h"

namespace sluice::files {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kClass = "LlamaForCausalLMEagle3", kLayerClass = "LlamaForCausalLM";

std::string ClassOf(const Json& config) {
  const Json* classes = JsonFields(config).Find("architectures");
  const bool named = classes != nullptr && classes->is_array() && !classes->empty() &&
                     classes->front().is_string();
  return named ? classes->front().get<std::string>() : "";
}

Result<Json> ReadConfig(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text,
                          ReadTextFile((fs::path(path) / "config.json").string(), kConfigBytesMax));
  return ParseModelJson(text, "config.json");
}

// What the file says in "eagle_config" of the layers that the head reads, if it does.
Status ReadHiddenLayers(const JsonFields& fields, std::vector<int>* layers) {
  SLUICE_ASSIGN_OR_RETURN(const auto eagle, fields.Object("eagle_config"));
  if (!eagle) return OkStatus();
  constexpr std::string_view kKey = "eagle_aux_hidden_state_layer_ids";
  SLUICE_RETURN_IF_ERROR(eagle->Ids(kKey, {0, kLayersRange.max - 1}, layers));
  if (layers->empty()) return OkStatus();
  const bool ascending =
      std::adjacent_find(layers->begin(), layers->end(), std::greater_equal<>()) == layers->end();
  if (layers->size() == kEagleLayers && ascending) return OkStatus();
  return BadModel(StrCat(Quote(kKey), " has ", layers->size(), " layers",
                         ascending ? "" : ", which do not ascend", "; a head reads ", kEagleLayers,
                         ", each behind the one before"));
}

Result<EagleConfig> ReadEagleConfig(Json config) {
  EagleConfig eagle;
  config["architectures"] = Json::array({kLayerClass});
  SLUICE_ASSIGN_OR_RETURN(eagle.layer, ConfigFromJson(DumpJson(config), ""));
  if (eagle.layer.num_layers != 1)
    return BadModel(StrCat("\"num_hidden_layers\" is ", eagle.layer.num_layers,
                           "; heads of one layer are supported"));
  eagle.layer.num_layers = 0;
  eagle.layer.layers.clear();
  const JsonFields fields(config);
  eagle.target_hidden_size = eagle.layer.hidden_size;
  eagle.draft_vocab_size = eagle.layer.vocab_size;
  SLUICE_RETURN_IF_ERROR(fields.Int("target_hidden_size", kHiddenRange, &eagle.target_hidden_size));
  SLUICE_RETURN_IF_ERROR(
      fields.Int("draft_vocab_size", {1, eagle.layer.vocab_size}, &eagle.draft_vocab_size));
  SLUICE_RETURN_IF_ERROR(ReadHiddenLayers(fields, &eagle.hidden_layers));
  if (eagle.layer.hidden_size == kEagleLayers * eagle.target_hidden_size)
    return BadModel(StrCat("\"hidden_size\" ", eagle.layer.hidden_size, " is that of ",
                           kEagleLayers,
                           " hidden states of the model side by side, which a head joins"));
  return eagle;
}

Status ReadIds(const TensorSource& tensors, EagleConfig* config) {
  SLUICE_ASSIGN_OR_RETURN(config->target_ids, ReadTargetIds(tensors, config->layer.vocab_size));
  const auto ids = static_cast<int>(config->target_ids.size());
  const int guesses = config->draft_vocab_size;
  if (ids == guesses || (ids == 0 && guesses == config->layer.vocab_size)) return OkStatus();
  if (ids > 0)
    return BadModel(
        StrCat("the tensor \"d2t\" has ", ids, " tokens, and \"draft_vocab_size\" is ", guesses));
  return BadModel(StrCat("\"draft_vocab_size\" is ", guesses, " of ", config->layer.vocab_size,
                         " tokens, and no tensor \"d2t\" says which they are"));
}

Status Read(EagleFiles* files) {
  SLUICE_ASSIGN_OR_RETURN(Json config, ReadConfig(files->path));
  const std::string name = ClassOf(config);
  // Some of those that were published first say what their layer is, and no more.
  if (name != kClass && name != kLayerClass)
    return BadModel(StrCat("config.json names no head of EAGLE-3's form but ", Quote(name), "; ",
                           kClass, " is supported"));
  SLUICE_ASSIGN_OR_RETURN(files->config, ReadEagleConfig(std::move(config)));
  SLUICE_ASSIGN_OR_RETURN(files->tensors, OpenSafetensors(files->path));
  const TensorSource& tensors = *files->tensors;
  for (const char* const prefix : {"", "model."}) {
    if (tensors.Find(StrCat(prefix, "fc.bias")) != nullptr)
      return BadModel("the product \"fc\" has a bias, which is not supported");
    if (tensors.Find(StrCat(prefix, "embed_tokens.weight")) != nullptr)
      files->config.own_embedding = true;
  }
  files->config.layer.dtype = MostCommonDType(tensors.tensors());
  return ReadIds(tensors, &files->config);
}

}  // namespace

bool IsEagle(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return false;
  const Result<Json> config = ReadConfig(path);
  return config.ok() && ClassOf(*config) == kClass;
}

Result<EagleFiles> OpenEagle(const std::string& path) {
  EagleFiles files;
  files.path = path;
  const Status status = Read(&files);
  if (status.ok()) return files;
  return status.message().starts_with(path) ? status : status.WithContext(path);
}

}  // namespace sluice::files
