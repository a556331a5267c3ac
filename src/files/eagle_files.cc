#include "files/eagle_files.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/config_check.h"
#include "files/folder_texts.h"
#include "files/json_fields.h"
#include "files/mapped_file.h"
#include "files/pytorch_file.h"
#include "files/safetensors.h"
#include "files/target_ids.h"

namespace sluice::files {
namespace {

namespace fs = std::filesystem;

// What heads of each form are called, by SGLang, vLLM and those who convert for them.
constexpr std::string_view kThirdClass = "LlamaForCausalLMEagle3";
constexpr std::string_view kFirstClasses[] = {"LlamaForCausalLMEagle", "EagleLlamaForCausalLM",
                                              "EagleModel", "EAGLEModel"};
// Most of those that were published say what their layers are, and no more.
constexpr std::string_view kLayerClass = "LlamaForCausalLM";
constexpr std::string_view kLayerClasses[] = {kLayerClass, "Qwen2ForCausalLM"};

constexpr char kJoin[] = "fc.weight", kJoinBias[] = "fc.bias";
constexpr char kEmbedding[] = "embed_tokens.weight";

bool IsOneOf(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

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

// Many of the first heads were published as PyTorch's own files alone.
Result<std::shared_ptr<const TensorSource>> OpenTensors(const std::string& folder) {
  auto tensors = OpenSafetensors(folder);
  const std::string pickled = (fs::path(folder) / kPytorchName).string();
  std::error_code error;
  if (tensors.status().code() == StatusCode::kNotFound && fs::exists(pickled, error))
    return OpenPytorch(pickled);
  return tensors;
}

const FileTensor* FindEither(const TensorSource& tensors, std::string_view name) {
  const FileTensor* tensor = tensors.Find(name);
  return tensor != nullptr ? tensor : tensors.Find(StrCat("model.", name));
}

// Of a head whose class says what its layers are.
EagleForm FormOf(const TensorSource& tensors) {
  const bool third = FindEither(tensors, kTargetIds) != nullptr ||
                     FindEither(tensors, "midlayer.self_attn.q_proj.weight") != nullptr;
  return third ? EagleForm::kThird : EagleForm::kFirst;
}

// vLLM's old spelling has the layers' config in "model", beside what is said of the head.
Result<Json> Flattened(Json config) {
  if (!config.contains("model") || !config["model"].is_object()) return config;
  Json flat = std::move(config["model"]);
  const std::string name = ClassOf(flat);
  if (!name.empty() && !IsOneOf(kLayerClasses, name))
    return BadModel(StrCat("the layers of the head are those of ", Quote(name), "; ", kLayerClass,
                           " is supported"));
  config.erase("model");
  config.erase("model_type");
  config.erase("architectures");
  for (auto& [key, value] : config.items()) {
    if (!flat.contains(key)) flat[key] = std::move(value);
  }
  return flat;
}

Status ReadThirdForm(const JsonFields& fields, EagleConfig* eagle) {
  if (eagle->layer.num_layers != 1)
    return BadModel(StrCat("\"num_hidden_layers\" is ", eagle->layer.num_layers,
                           "; heads of EAGLE-3's form have one layer"));
  SLUICE_RETURN_IF_ERROR(
      fields.Int("target_hidden_size", kHiddenRange, &eagle->target_hidden_size));
  SLUICE_RETURN_IF_ERROR(
      fields.Int("draft_vocab_size", {1, eagle->layer.vocab_size}, &eagle->draft_vocab_size));
  return ReadHiddenLayers(fields, &eagle->hidden_layers);
}

// What some that are derived from the first form add, without which their drafts would be wrong.
Status ReadFirstForm(const JsonFields& fields, const TensorSource& tensors, EagleConfig* eagle) {
  bool norms = false;
  SLUICE_RETURN_IF_ERROR(fields.Bool("add_para_norm", &norms));
  if (norms || FindEither(tensors, "layers.0.input_layernorm.weight") != nullptr)
    return BadModel(
        "the head has norms before its first layer, which those of EAGLE's form lack; heads with "
        "them are not supported");
  for (const char* const name : {kTargetIds, "token_map"}) {
    if (FindEither(tensors, name) != nullptr)
      return BadModel(StrCat("the head guesses a part of the vocabulary by ", Quote(name),
                             ", which is supported for heads of EAGLE-3's form alone"));
  }
  const auto sees_all = [](const LayerConfig& layer) { return layer.kind == LayerKind::kFull; };
  if (!std::all_of(eagle->layer.layers.begin(), eagle->layer.layers.end(), sees_all))
    return BadModel("layers of the head have windows, which is not supported for heads");
  // Whether there are biases no key says that all writers agree on.
  eagle->layer.attention_bias = FindEither(tensors, "layers.0.self_attn.q_proj.bias") != nullptr;
  return OkStatus();
}

Result<EagleConfig> ReadEagleConfig(Json config, const TensorSource& tensors) {
  EagleConfig eagle;
  const std::string name = ClassOf(config);
  const bool first = IsOneOf(kFirstClasses, name), bare = IsOneOf(kLayerClasses, name);
  if (name != kThirdClass && !first && !bare)
    return BadModel(StrCat("config.json names no head of EAGLE's form but ", Quote(name), "; ",
                           kThirdClass, " and ", kFirstClasses[0], " are supported"));
  if (name != kThirdClass && FindEither(tensors, kJoin) == nullptr)
    return BadModel(StrCat("there is no tensor ", Quote(kJoin),
                           ", which every head of EAGLE's form has",
                           bare ? "; this is a model" : "; the download may be incomplete"));
  eagle.form = first ? EagleForm::kFirst : bare ? FormOf(tensors) : EagleForm::kThird;
  SLUICE_ASSIGN_OR_RETURN(config, Flattened(std::move(config)));
  if (!IsOneOf(kLayerClasses, ClassOf(config))) {
    config["architectures"] = Json::array({kLayerClass});
    config.erase("model_type");
  }
  SLUICE_ASSIGN_OR_RETURN(eagle.layer, ConfigFromJson(DumpJson(config), ""));
  eagle.layer.dtype = MostCommonDType(tensors.tensors());
  eagle.target_hidden_size = eagle.layer.hidden_size;
  eagle.draft_vocab_size = eagle.layer.vocab_size;
  const JsonFields fields(config);
  SLUICE_RETURN_IF_ERROR(eagle.form == EagleForm::kFirst ? ReadFirstForm(fields, tensors, &eagle)
                                                         : ReadThirdForm(fields, &eagle));
  eagle.join_bias = FindEither(tensors, kJoinBias) != nullptr;
  eagle.own_embedding = FindEither(tensors, kEmbedding) != nullptr;
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
  SLUICE_ASSIGN_OR_RETURN(files->tensors, OpenTensors(files->path));
  SLUICE_ASSIGN_OR_RETURN(files->config, ReadEagleConfig(std::move(config), *files->tensors));
  if (files->config.form == EagleForm::kFirst) return OkStatus();
  return ReadIds(*files->tensors, &files->config);
}

}  // namespace

bool IsEagle(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return false;
  const Result<Json> config = ReadConfig(path);
  if (!config.ok()) return false;
  const std::string name = ClassOf(*config);
  if (name == kThirdClass || IsOneOf(kFirstClasses, name)) return true;
  if (!IsOneOf(kLayerClasses, name)) return false;
  const auto tensors = OpenTensors(path);
  return tensors.ok() && FindEither(**tensors, kJoin) != nullptr;
}

Result<EagleFiles> OpenEagle(const std::string& path) {
  EagleFiles files;
  files.path = path;
  const Status status = Read(&files);
  if (status.ok()) return files;
  return status.message().starts_with(path) ? status : status.WithContext(path);
}

}  // namespace sluice::files
