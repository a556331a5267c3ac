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
#include "files/dflash_config.h"
#include "files/folder_texts.h"
#include "files/json_fields.h"
#include "files/mapped_file.h"
#include "files/pytorch_file.h"
#include "files/safetensors.h"
#include "files/speculators_config.h"
#include "files/target_ids.h"

namespace sluice::files {
namespace {

namespace fs = std::filesystem;

// What heads of each form are called, by SGLang, vLLM and those who convert for them.
constexpr std::string_view kThirdClasses[] = {"LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM",
                                              "Qwen3ForCausalLMEagle3", "Eagle3Qwen3ForCausalLM"};
constexpr std::string_view kFirstClasses[] = {"LlamaForCausalLMEagle", "EagleLlamaForCausalLM",
                                              "EagleModel", "EAGLEModel"};
// Most of those that were published say what their layers are, and no more.
constexpr std::string_view kLayerClass = "LlamaForCausalLM";
constexpr std::string_view kLayerClasses[] = {kLayerClass, "Qwen2ForCausalLM"};

constexpr char kJoin[] = "fc.weight", kJoinBias[] = "fc.bias";
// As speculators spells these of the first form.
constexpr char kFusion[] = "fusion_fc.weight", kFusionBias[] = "fusion_fc.bias";
constexpr char kEmbedding[] = "embed_tokens.weight";
constexpr char kMaskHidden[] = "mask_hidden";
// What config.json calls the mask token, by P-EAGLE's own trainer, vLLM and its speculators.
constexpr std::string_view kMaskTokens[] = {"ptd_token_id", "pard_token", "mask_token_id"};

bool IsOneOf(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Result<Json> ReadConfig(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text,
                          ReadTextFile((fs::path(path) / "config.json").string(), kConfigBytesMax));
  return ParseModelJson(text, "config.json");
}

// What the file says of the layers that the head reads, if it does: in "eagle_config" they are
// counted by what they give, as SpecForge does, and beside it by what they are given, as vLLM does.
Status ReadHiddenLayers(const JsonFields& fields, std::vector<int>* layers) {
  constexpr std::string_view kKey = "eagle_aux_hidden_state_layer_ids";
  SLUICE_ASSIGN_OR_RETURN(const auto eagle, fields.Object("eagle_config"));
  if (eagle) SLUICE_RETURN_IF_ERROR(eagle->Ids(kKey, {0, kLayersRange.max - 1}, layers));
  if (layers->empty() && fields.Has(kKey)) {
    SLUICE_RETURN_IF_ERROR(fields.Ids(kKey, {1, kLayersRange.max}, layers));
    for (int& layer : *layers) --layer;
  }
  if (layers->empty()) return OkStatus();
  const bool ascending =
      std::adjacent_find(layers->begin(), layers->end(), std::greater_equal<>()) == layers->end();
  if (layers->size() <= kHeadLayersMax && ascending) return OkStatus();
  return BadModel(StrCat(Quote(kKey), " has ", layers->size(), " layers",
                         ascending ? "" : ", which do not ascend", "; a head reads 1 to ",
                         kHeadLayersMax, ", each behind the one before"));
}

// Many of the first heads were published as PyTorch's own files alone.
Result<std::shared_ptr<const TensorSource>> OpenHeadTensors(const std::string& folder) {
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

// The key that names the mask token, if there is one.
std::string_view MaskTokenKey(const JsonFields& fields) {
  for (const std::string_view key : kMaskTokens) {
    const Json* value = fields.Find(key);
    if (value != nullptr && !value->is_null()) return key;
  }
  return "";
}

// Of a head that reads layers of the model.
EagleForm LayersForm(const JsonFields& fields, const TensorSource& tensors) {
  const bool parallel =
      FindEither(tensors, kMaskHidden) != nullptr || !MaskTokenKey(fields).empty();
  return parallel ? EagleForm::kParallel : EagleForm::kThird;
}

// Of a head whose class says what its layers are.
EagleForm FormOf(const JsonFields& fields, const TensorSource& tensors) {
  const bool layers = FindEither(tensors, kTargetIds) != nullptr ||
                      FindEither(tensors, kMaskHidden) != nullptr ||
                      FindEither(tensors, "midlayer.self_attn.q_proj.weight") != nullptr;
  return layers ? LayersForm(fields, tensors) : EagleForm::kFirst;
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

// What a head of the parallel form has besides.
Status ReadParallelForm(const JsonFields& fields, const TensorSource& tensors, EagleConfig* eagle) {
  if (FindEither(tensors, kMaskHidden) == nullptr)
    return BadModel(
        StrCat("config.json names a mask token, as for drafts of one pass, and there is "
               "no tensor ",
               Quote(kMaskHidden), "; the download may be incomplete"));
  const std::string_view key = MaskTokenKey(fields);
  if (key.empty())
    return BadModel(StrCat("the head has the tensor ", Quote(kMaskHidden),
                           ", and config.json names no mask token (", Quote(kMaskTokens[0]), ", ",
                           Quote(kMaskTokens[1]), " or ", Quote(kMaskTokens[2]),
                           "); the download may be incomplete"));
  return fields.Int(key, {0, eagle->layer.vocab_size - 1}, &eagle->mask_token);
}

Status ReadThirdForm(const JsonFields& fields, const TensorSource& tensors, EagleConfig* eagle) {
  const auto sees_all = [](const LayerConfig& layer) { return layer.kind == LayerKind::kFull; };
  if (!std::all_of(eagle->layer.layers.begin(), eagle->layer.layers.end(), sees_all))
    return BadModel("layers of the head have windows, which is not supported for heads");
  SLUICE_RETURN_IF_ERROR(fields.Bool("norm_before_residual", &eagle->norm_before_residual));
  SLUICE_RETURN_IF_ERROR(fields.Bool("norm_before_fc", &eagle->norm_before_join));
  SLUICE_RETURN_IF_ERROR(fields.Bool("fc_norm", &eagle->norm_each_before_join));
  SLUICE_RETURN_IF_ERROR(fields.Bool("norm_output", &eagle->norm_output));
  if (eagle->norm_before_join && eagle->norm_each_before_join)
    return BadModel("\"norm_before_fc\" and \"fc_norm\" are both true, and a head has one of them");
  if (eagle->form == EagleForm::kParallel)
    SLUICE_RETURN_IF_ERROR(ReadParallelForm(fields, tensors, eagle));
  SLUICE_RETURN_IF_ERROR(
      fields.Int("target_hidden_size", kHiddenRange, &eagle->target_hidden_size));
  SLUICE_RETURN_IF_ERROR(
      fields.Int("draft_vocab_size", {1, eagle->layer.vocab_size}, &eagle->draft_vocab_size));
  SLUICE_RETURN_IF_ERROR(ReadHiddenLayers(fields, &eagle->hidden_layers));
  if (!eagle->hidden_layers.empty())
    eagle->layers_read = static_cast<int>(eagle->hidden_layers.size());
  return OkStatus();
}

// Of DFlash's form, what its layers' config does not say.
Status ReadDiffusionForm(const DFlashHead& head, const TensorSource& tensors, EagleConfig* eagle) {
  eagle->hidden_layers = head.layers;
  eagle->layers_read = static_cast<int>(head.layers.size());
  eagle->block_tokens = std::max(0, head.block_tokens - 1);
  eagle->mask_token = head.mask_token;
  if (head.mask_token >= eagle->layer.vocab_size)
    return BadModel(StrCat("\"mask_token_id\" is ", head.mask_token, ", and the vocabulary has ",
                           eagle->layer.vocab_size, " tokens"));
  for (const char* const name : {kTargetIds, "lm_head.weight", "mask_embedding"}) {
    if (FindEither(tensors, name) != nullptr)
      return BadModel(StrCat("the head has a tensor ", Quote(name),
                             ", and heads of DFlash's form are supported that take embedding and "
                             "output matrix from their model"));
  }
  const auto sees_all = [](const LayerConfig& layer) { return layer.kind == LayerKind::kFull; };
  if (std::all_of(eagle->layer.layers.begin(), eagle->layer.layers.end(), sees_all))
    return OkStatus();
  return BadModel("layers of the head have windows, which is not supported for heads");
}

// The first of `names` that is a tensor; empty: none is.
std::string FirstOf(const TensorSource& tensors, std::span<const std::string_view> names) {
  for (const std::string_view name : names) {
    if (const FileTensor* tensor = FindEither(tensors, name)) return tensor->name;
  }
  return "";
}

Status NoNorm(std::string_view key, std::string_view name) {
  return BadModel(StrCat("config.json says ", Quote(key), ", and there is no tensor ", Quote(name),
                         "; the download may be incomplete"));
}

// Norms that are added to the first form. Heads of vLLM's research on HASS have them under names of
// their own, and under those that vLLM gives them ("add_para_norm"); speculators has them where
// "layernorms" is true.
Status ReadAddedNorms(const JsonFields& fields, const TensorSource& tensors, AddedNorms* norms) {
  constexpr std::string_view kEmbeddings[] = {"embed_layernorm.weight", "enorm.weight"},
                             kStates[] = {"hidden_layernorm.weight", "hnorm.weight"},
                             kOutput[] = {"lm_head_layernorm.weight"};
  norms->embedding = FirstOf(tensors, kEmbeddings);
  norms->states = FirstOf(tensors, kStates);
  norms->output = FirstOf(tensors, kOutput);
  bool both = false, of_speculators = false;
  SLUICE_RETURN_IF_ERROR(fields.Bool("add_para_norm", &both));
  if (both && norms->embedding.empty()) return NoNorm("add_para_norm", kEmbeddings[1]);
  if (both && norms->states.empty()) return NoNorm("add_para_norm", kStates[1]);
  SLUICE_RETURN_IF_ERROR(fields.Bool("layernorms", &of_speculators));
  if (of_speculators) {
    for (const auto& [norm, name] :
         {std::pair(&norms->embedding, "embedding_layernorm.weight"),
          std::pair(&norms->first_layer, "transformer.input_layernorm.weight"),
          std::pair(&norms->output, "pre_lm_head_layernorm.weight")}) {
      if (FindEither(tensors, name) == nullptr) return NoNorm("layernorms", name);
      *norm = FindEither(tensors, name)->name;
    }
  }
  // Some runtimes apply it and some don't.
  if (FindEither(tensors, "layers.0.input_layernorm.weight") == nullptr) return OkStatus();
  return BadModel(
      "the head has a norm before the attention of its first layer, which those of EAGLE's form "
      "lack, and nothing says whether it is applied; leave the tensor "
      "\"layers.0.input_layernorm.weight\" out");
}

// What some that are derived from the first form add, without which their drafts would be wrong.
Status ReadFirstForm(const JsonFields& fields, const TensorSource& tensors, EagleConfig* eagle) {
  SLUICE_RETURN_IF_ERROR(ReadAddedNorms(fields, tensors, &eagle->added_norms));
  for (const char* const name : {kTargetIds, "token_map"}) {
    if (FindEither(tensors, name) != nullptr)
      return BadModel(StrCat("the head guesses a part of the vocabulary by ", Quote(name),
                             ", which is supported for heads of EAGLE-3's form alone"));
  }
  const auto sees_all = [](const LayerConfig& layer) { return layer.kind == LayerKind::kFull; };
  if (!std::all_of(eagle->layer.layers.begin(), eagle->layer.layers.end(), sees_all))
    return BadModel("layers of the head have windows, which is not supported for heads");
  // Whether there are biases no key says that all writers agree on.
  eagle->layer.attention_bias = FindEither(tensors, "layers.0.self_attn.q_proj.bias") != nullptr ||
                                FindEither(tensors, "transformer.self_attn.q_proj.bias") != nullptr;
  return OkStatus();
}

// Whether the product is there that joins what a head reads.
bool Joins(const TensorSource& tensors) {
  return FindEither(tensors, kJoin) != nullptr || FindEither(tensors, kFusion) != nullptr;
}

// Of a head in a format of its own, its form, and in *config what is said of its layers.
Result<EagleForm> ReadForm(const TensorSource& tensors, Json* config) {
  const std::string name = ClassOf(*config);
  const bool first = IsOneOf(kFirstClasses, name), bare = IsOneOf(kLayerClasses, name),
             third = IsOneOf(kThirdClasses, name);
  if (!third && !first && !bare)
    return BadModel(StrCat("config.json names no head of EAGLE's form but ", Quote(name), "; ",
                           kThirdClasses[0], " and ", kFirstClasses[0], " are supported"));
  if (!third && !Joins(tensors))
    return BadModel(StrCat("there is no tensor ", Quote(kJoin),
                           ", which every head of EAGLE's form has",
                           bare ? "; this is a model" : "; the download may be incomplete"));
  const EagleForm form = first  ? EagleForm::kFirst
                         : bare ? FormOf(JsonFields(*config), tensors)
                                : LayersForm(JsonFields(*config), tensors);
  SLUICE_ASSIGN_OR_RETURN(*config, Flattened(std::move(*config)));
  if (!IsOneOf(kLayerClasses, ClassOf(*config))) {
    // Whether heads of Q and K have norms the class does not say for all.
    const bool norms = FindEither(tensors, "midlayer.self_attn.q_norm.weight") != nullptr ||
                       FindEither(tensors, "layers.0.self_attn.q_norm.weight") != nullptr;
    (*config)["architectures"] = Json::array({norms ? "Qwen3ForCausalLM" : kLayerClass});
    config->erase("model_type");
  }
  return form;
}

Result<EagleConfig> ReadEagleConfig(Json config, const TensorSource& tensors) {
  EagleConfig eagle;
  DFlashHead diffusion;
  if (IsDFlash(config)) {
    SLUICE_ASSIGN_OR_RETURN(diffusion, ReadDFlash(std::move(config)));
    eagle.form = EagleForm::kDiffusion;
    config = std::move(diffusion.config);
  } else if (IsSpeculators(config)) {
    SLUICE_ASSIGN_OR_RETURN(SpeculatorsHead head, ReadSpeculators(config));
    eagle.form = head.form;
    eagle.block_tokens = head.block_tokens;
    config = std::move(head.config);
  } else {
    SLUICE_ASSIGN_OR_RETURN(eagle.form, ReadForm(tensors, &config));
  }
  SLUICE_ASSIGN_OR_RETURN(eagle.layer, ConfigFromJson(DumpJson(config), ""));
  eagle.layer.dtype = MostCommonDType(tensors.tensors());
  eagle.target_hidden_size = eagle.layer.hidden_size;
  eagle.draft_vocab_size = eagle.layer.vocab_size;
  const JsonFields fields(config);
  const Status read = eagle.form == EagleForm::kDiffusion
                          ? ReadDiffusionForm(diffusion, tensors, &eagle)
                      : eagle.form == EagleForm::kFirst ? ReadFirstForm(fields, tensors, &eagle)
                                                        : ReadThirdForm(fields, tensors, &eagle);
  SLUICE_RETURN_IF_ERROR(read);
  eagle.join_bias =
      FindEither(tensors, kJoinBias) != nullptr || FindEither(tensors, kFusionBias) != nullptr;
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

Result<EagleFiles> Read(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(Json config, ReadConfig(path));
  SLUICE_ASSIGN_OR_RETURN(auto tensors, OpenHeadTensors(path));
  return ReadEagle(path, std::move(config), std::move(tensors));
}

}  // namespace

Result<EagleFiles> ReadEagle(std::string path, Json config,
                             std::shared_ptr<const TensorSource> tensors) {
  EagleFiles files;
  files.path = std::move(path);
  files.tensors = std::move(tensors);
  SLUICE_ASSIGN_OR_RETURN(files.config, ReadEagleConfig(std::move(config), *files.tensors));
  if (UsesModelsOutput(files.config.form)) return files;
  SLUICE_RETURN_IF_ERROR(ReadIds(*files.tensors, &files.config));
  return files;
}

bool IsEagle(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return false;
  const Result<Json> config = ReadConfig(path);
  if (!config.ok()) return false;
  if (IsDFlash(*config) || IsSpeculators(*config)) return true;
  const std::string name = ClassOf(*config);
  if (IsOneOf(kThirdClasses, name) || IsOneOf(kFirstClasses, name)) return true;
  if (!IsOneOf(kLayerClasses, name)) return false;
  const auto tensors = OpenHeadTensors(path);
  return tensors.ok() && Joins(**tensors);
}

Result<EagleFiles> OpenEagle(const std::string& path) {
  Result<EagleFiles> files = Read(path);
  if (files.ok()) return files;
  const Status status = files.status();
  return status.message().starts_with(path) ? status : status.WithContext(path);
}

}  // namespace sluice::files
