// sluice inspect: what is in a model folder or file; never runs it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>

#include "base/json.h"
#include "base/log.h"
#include "base/parse_bytes.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "cli/cli.h"
#include "cli/work.h"
#include "device/resolver.h"
#include "exec/kv_dtype.h"
#include "exec/local_runner.h"
#include "files/file_type.h"
#include "files/model_files.h"
#include "sluice/options.h"

namespace sluice::cli {
namespace {

// Layers with a state instead of K and V.
int64_t StateLayers(const files::ModelConfig& config) {
  return std::count_if(config.layers.begin(), config.layers.end(),
                       [](const auto& l) { return files::HasState(l.kind); });
}

// Null where no layer has a recurrence.
Json RecurrenceOf(const files::ModelConfig& config) {
  const files::LinearAttentionConfig& linear = config.linear;
  if (linear.value_heads == 0) return nullptr;
  return Json{{"layers", StateLayers(config)},
              {"heads", linear.value_heads},
              {"key_dim", linear.key_head_dim},
              {"value_dim", linear.value_head_dim}};
}

// Of one token in all layers.
int64_t KvBytesPerToken(const files::ModelConfig& config, DType kv) {
  int64_t bytes = 0;
  for (const files::LayerConfig& layer : config.layers) {
    if (!files::HasState(layer.kind) && layer.kv_of < 0) bytes += KvTokenBytes(config, kv, layer);
  }
  return bytes;
}

// Of one sequence in all layers, however long it is.
int64_t StateBytes(const files::ModelConfig& config) {
  const files::LinearAttentionConfig& linear = config.linear;
  int64_t numbers = int64_t{linear.value_width()} * linear.key_head_dim +
                    int64_t{linear.conv_rows()} * linear.channels();
  if (config.short_conv.kernel > 0) {
    numbers = int64_t{config.short_conv.kernel - 1} * config.hidden_size;
  }
  return StateLayers(config) * numbers * static_cast<int64_t>(sizeof(float));
}

Json FormatsOf(const files::TensorSource& tensors) {
  std::map<std::string, std::pair<int64_t, int64_t>> formats;  // tensors, bytes
  for (const files::FileTensor& tensor : tensors.tensors()) {
    auto& [count, bytes] = formats[std::string(Name(tensor.dtype))];
    ++count;
    bytes += static_cast<int64_t>(tensor.data.size());
  }
  Json json = Json::object();
  for (const auto& [name, sums] : formats) {
    json[name] = {{"tensors", sums.first}, {"bytes", sums.second}};
  }
  return json;
}

// Null where no layer has any.
Json ExpertsOf(const files::ModelConfig& config) {
  const files::ExpertsConfig& experts = config.experts;
  if (experts.count == 0) return nullptr;
  const auto layers = std::count_if(config.layers.begin(), config.layers.end(),
                                    [](const auto& l) { return l.experts; });
  return Json{{"count", experts.count},
              {"per_token", experts.per_token},
              {"width", experts.width},
              {"layers", layers}};
}

const char* TokenizerName(files::TokenizerModel model) {
  switch (model) {
    case files::TokenizerModel::kByteBpe:
      return "byte-level BPE";
    case files::TokenizerModel::kSentencePieceBpe:
      return "SentencePiece BPE";
    case files::TokenizerModel::kUnigram:
      return "Unigram";
    case files::TokenizerModel::kWordPiece:
      return "WordPiece";
    case files::TokenizerModel::kNone:
      return "none (token ids alone)";
  }
  return "unknown";
}

// Null where the device does not open or does not take the model, which the log says.
Json WeightBytesOn(const device::Survey& survey, const device::DeviceFacts& facts,
                   const files::ModelFiles& files) {
  const auto device = survey.backend->Open(*survey.visible, facts.id.index, {.threads = 1});
  Status status = device.status();
  if (device.ok()) {
    const auto bytes = exec::WeightBytesOn(**device, files);
    if (bytes.ok()) return *bytes;
    status = bytes.status();
  }
  LogWarning(device::ToString(facts.id), ": ", status.message());
  return nullptr;
}

// Scales belong to parameters.
bool IsScale(const files::FileTensor& tensor) {
  return tensor.name.ends_with("_scale") || tensor.name.ends_with("_scale_inv");
}

// REQUIRES: `kv_dtype` is one that ParseKvDtype takes.
Json Describe(const files::ModelFiles& files, const std::string& kv_dtype,
              std::span<const device::Survey> surveys) {
  const files::ModelConfig& config = files.config;
  int64_t parameters = 0, bytes = 0;
  for (const files::FileTensor& tensor : files.tensors->tensors()) {
    int64_t elements = 1;
    for (const int64_t dim : tensor.shape) elements *= dim;
    if (!IsScale(tensor)) parameters += elements;
    bytes += static_cast<int64_t>(tensor.data.size());
  }
  Json memory = Json::object();
  for (const device::Survey& survey : surveys) {
    for (const device::DeviceFacts& facts : survey.devices) {
      const DType automatic = exec::AutomaticKvDtype(*files.tensors, facts);
      const DType kv = exec::ParseKvDtype(kv_dtype, automatic).value();
      memory[device::ToString(facts.id)] = {
          {"weights_bytes", WeightBytesOn(survey, facts, files)},
          {"kv_dtype", Name(kv)},
          {"kv_bytes_per_token", KvBytesPerToken(config, kv)},
          {"kv_bytes_full_context", KvBytesPerToken(config, kv) * config.context_length},
          {"state_bytes_per_sequence", StateBytes(config)},
          {"device_bytes", facts.memory_bytes}};
    }
  }
  // Where no layer has attention there are none.
  const bool attends = StateLayers(config) < config.num_layers;
  return Json{{"path", files.path},
              {"name", config.name},
              {"architecture", files::ArchitectureName(config.architecture)},
              {"parameters", parameters},
              {"weight_bytes", bytes},
              {"file_type", files::FileTypeOf(*files.tensors)},
              {"formats", FormatsOf(*files.tensors)},
              {"quantization", config.quantization ? Json(ToString(*config.quantization)) : Json()},
              {"layers", config.stored_layers()},
              {"hidden_size", config.hidden_size},
              {"heads", attends ? config.num_heads : 0},
              {"kv_heads", attends ? config.num_kv_heads : 0},
              {"head_dim", attends ? config.head_dim : 0},
              {"recurrence", RecurrenceOf(config)},
              {"intermediate_size", config.intermediate_size},
              {"experts", ExpertsOf(config)},
              {"vocab_size", config.vocab_size},
              {"context_length", config.context_length},
              {"sliding_window", config.sliding_window},
              {"tied_embeddings", config.tied_embeddings},
              {"mtp_heads", config.mtp_heads},
              {"tokenizer", TokenizerName(files.tokenizer.model)},
              {"chat_template", !files.chat_template.empty()},
              {"memory", memory}};
}

void PrintDescription(const Json& d) {
  const auto row = [](const char* name, const std::string& value) {
    std::cout << std::string(name).append(16 - std::string_view(name).size(), ' ') << value << "\n";
  };
  const auto number = [&](const char* key) { return StrCat(d[key].get<int64_t>()); };
  row("file", d["path"]);
  row("name", Quote(d["name"].get<std::string>()));
  row("architecture", d["architecture"]);
  row("parameters", StrCat(d["parameters"].get<int64_t>() / 1'000'000, " M"));
  row("file type", d["file_type"]);
  for (const auto& [format, sums] : d["formats"].items()) {
    row("format", StrCat(format, ": ", sums["tensors"].get<int64_t>(), " tensors, ",
                         FormatBytes(sums["bytes"].get<uint64_t>())));
  }
  if (!d["quantization"].is_null()) row("quantization", d["quantization"]);
  std::string heads = "no attention";
  if (d["heads"].get<int64_t>() > 0) {
    heads = StrCat(number("heads"), " heads of ", number("head_dim"), ", ", number("kv_heads"),
                   " KV heads");
  }
  row("shape", StrCat(number("layers"), " layers, width ", number("hidden_size"), ", ", heads,
                      ", MLP ", number("intermediate_size")));
  if (!d["recurrence"].is_null()) {
    const Json& states = d["recurrence"];
    const auto of = [&](const char* key) { return StrCat(states[key].get<int64_t>()); };
    row("recurrence", StrCat(of("heads"), " heads with states of ", of("key_dim"), " by ",
                             of("value_dim"), " in ", of("layers"), " layers"));
  }
  if (!d["experts"].is_null()) {
    const Json& experts = d["experts"];
    const auto of = [&](const char* key) { return StrCat(experts[key].get<int64_t>()); };
    row("experts", StrCat(of("count"), " of width ", of("width"), " in ", of("layers"), " layers, ",
                          of("per_token"), " a token"));
  }
  row("vocabulary", number("vocab_size"));
  row("context", StrCat(number("context_length"), " tokens"));
  if (d["sliding_window"].get<int64_t>() > 0) row("window", number("sliding_window"));
  if (d["mtp_heads"].get<int64_t>() > 0)
    row("heads", StrCat(number("mtp_heads"), " that predict tokens (--speculate mtp)"));
  row("tokenizer", d["tokenizer"]);
  row("chat template", d["chat_template"].get<bool>() ? "yes" : "no");
  for (const auto& [id, figures] : d["memory"].items()) {
    const Json& memory = figures;
    const auto size = [&](const char* key) {
      return memory[key].is_null() ? "unknown" : FormatBytes(memory[key].get<uint64_t>());
    };
    row("memory", StrCat(id, ": weights ", size("weights_bytes"), ", KV in ",
                         memory["kv_dtype"].get<std::string>(), " ", size("kv_bytes_per_token"),
                         " a token, ", size("kv_bytes_full_context"), " for the whole context, ",
                         memory["state_bytes_per_sequence"] == 0
                             ? std::string()
                             : StrCat("states ", size("state_bytes_per_sequence"), " a sequence, "),
                         "of ", size("device_bytes")));
  }
}

Status Inspect(const std::string& model, const std::string& kv_dtype, bool json) {
  SLUICE_RETURN_IF_ERROR(exec::ParseKvDtype(kv_dtype, DType::kF16).status());
  SLUICE_ASSIGN_OR_RETURN(const std::string path, files::ResolveModel(model));
  SLUICE_ASSIGN_OR_RETURN(const files::ModelFiles files, files::OpenModel(path));
  const std::vector<device::Survey> surveys = device::SurveyBackends(device::LinkedBackends());
  // Nothing runs, so a list that cannot be read only leaves out its devices.
  for (const device::Survey& survey : surveys) {
    if (!survey.visible.ok()) LogWarning(survey.visible.status().message());
  }
  const Json description = Describe(files, kv_dtype, surveys);
  if (json) {
    std::cout << DumpJson(description) << "\n";
  } else {
    PrintDescription(description);
  }
  return OkStatus();
}

}  // namespace

Action SetUpInspect(CLI::App& app) {
  auto model = std::make_shared<std::string>();
  auto kv_dtype = std::make_shared<std::string>("auto");
  auto json = std::make_shared<bool>(false);
  app.add_option("model", *model,
                 "a .gguf file, a Hugging Face folder, or a name in the model cache")
      ->required()
      ->type_name("MODEL");
  app.add_option("--kv-dtype", *kv_dtype, EngineOptions::kKvDtypeHelp)->capture_default_str();
  app.add_flag("--json", *json, "print one JSON object");
  return [model, kv_dtype, json] { return Inspect(*model, *kv_dtype, *json); };
}

}  // namespace sluice::cli
