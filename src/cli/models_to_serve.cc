#include "cli/models_to_serve.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "base/json.h"
#include "base/log.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "cli/cli.h"
#include "cli/open_engine.h"
#include "exec/activation_dump.h"
#include "files/model_files.h"
#include "sluice/model_need.h"

namespace sluice::cli {
namespace {

// Loads a model, says what it is given, and follows its steps into `trace_file`, which several
// models share.
Result<std::unique_ptr<Engine>> Load(const EngineOptions& options, const std::string& trace_file) {
  // A large model takes its time, and without a terminal there is no progress to see.
  LogInfo("model: loading ", Quote(options.model));
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, OpenEngine(options));
  const EngineInfo info = engine->Info();
  if (!trace_file.empty()) {
    const std::string command =
        DumpJson(Json{{"command", "trace"}, {"file", trace_file}, {"process", info.model_name}});
    SLUICE_RETURN_IF_ERROR(engine->Admin(command).status());
  }
  LogInfo("device: ", info.device_reason, "; kernels ", info.kernels);
  LogInfo("memory: ", info.memory, "; room for up to ", info.kv_blocks * info.block_size,
          " tokens, in up to ", info.max_num_seqs, " sequences of ", info.max_model_len);
  LogInfo("answers: tool calls told apart as ", info.tool_parser, ", thinking as ",
          info.reasoning_parser);
  return engine;
}

// One model: its options, and where its table says them.
struct Told {
  EngineOptions options;
  Settings settings;
};

// An error about an option of the table, with the line that sets it. It has no field then, since
// the same option may also be set for every model.
template <class T>
Result<T> WithSource(Result<T> result, const Settings& settings) {
  if (result.ok()) return result;
  const Status& status = result.status();
  const auto found = settings.find(status.field());
  if (found == settings.end()) return result;
  return Status(status.code(), StrCat(status.message(), " (", found->first, " is set by ",
                                      found->second.source, ")"));
}

ModelToServe ToServe(const Told& told, const std::string& trace_file) {
  ModelToServe model;
  model.name = told.options.served_model_name;
  // Dumped activations are of the first loading: a later one would write over them.
  model.open = [told, trace_file, dumped = std::make_shared<std::atomic<bool>>(false)] {
    EngineOptions options = told.options;
    if (dumped->exchange(true)) options.dump_activations.clear();
    return WithSource(Load(options, trace_file), told.settings);
  };
  model.need = [told]() -> Result<int64_t> {
    SLUICE_ASSIGN_OR_RETURN(const ModelNeed need, WithSource(NeedOf(told.options), told.settings));
    return need.bytes();
  };
  return model;
}

const ModelTable* TableOf(const std::string& name, const std::vector<ModelTable>& tables) {
  const auto found = std::find_if(tables.begin(), tables.end(),
                                  [&](const ModelTable& table) { return table.name == name; });
  return found == tables.end() ? nullptr : &*found;
}

// Gives `told` what the table says beside the model itself, which is known.
Status TakeTable(const ModelTable& table, Told* told) {
  told->settings = table.settings;
  Settings values = table.settings;
  values.erase("model");
  CLI::App options;
  AddEngineOptions(options, &told->options);
  return ApplySettings(options, &values);
}

Result<std::string> OwnName(const std::string& model) {
  SLUICE_ASSIGN_OR_RETURN(const std::string path, files::ResolveModel(model));
  SLUICE_ASSIGN_OR_RETURN(const files::ModelFiles files, files::OpenModel(path));
  return files::ModelName(files);
}

// What `word` names, with the options of its table.
Result<Told> ToldOf(const std::string& word, const EngineOptions& options,
                    const std::vector<ModelTable>& tables) {
  Told told{options, {}};
  std::string& name = told.options.served_model_name;
  const ModelTable* table = TableOf(word, tables);
  if (table == nullptr) {
    const NamedModel named = ReadNamedModel(word);
    told.options.model = named.model;
    if (!named.name.empty()) name = named.name;
  } else {
    const auto model = table->settings.find("model");
    if (model == table->settings.end()) {
      return InvalidArgument(StrCat(table->source, ": the table of the model ", Quote(word),
                                    " does not say where it is; write model = there, or ", word,
                                    "=MODEL on the command line"));
    }
    if (model->second.values.size() != 1) {
      return InvalidArgument(StrCat(model->second.source, ": model takes one value and is given ",
                                    model->second.values.size()));
    }
    told.options.model = model->second.values.front();
    name = word;
  }
  if (name.empty() && !tables.empty()) {
    SLUICE_ASSIGN_OR_RETURN(name, OwnName(told.options.model));
  }
  if (table == nullptr) table = TableOf(name, tables);
  if (table != nullptr) SLUICE_RETURN_IF_ERROR(TakeTable(*table, &told));
  return told;
}

void TellOfUnusedTables(const std::vector<ModelToServe>& models,
                        const std::vector<ModelTable>& tables) {
  std::set<std::string> names;
  for (const ModelToServe& model : models) names.insert(model.name);
  for (const ModelTable& table : tables) {
    if (names.contains(table.name)) continue;
    LogWarning(table.source, ": no model with the name ", Quote(table.name),
               " is served, so that its table has no effect");
  }
}

// Steps of all models have the same file names. `folders`: of the models before, with their names.
Status TakeDumpFolder(const EngineOptions& options, std::map<std::string, std::string>* folders) {
  if (options.dump_activations.empty()) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const exec::DumpWanted wanted, exec::ParseDump(options.dump_activations));
  std::error_code ignored;
  const std::string folder = std::filesystem::weakly_canonical(wanted.folder, ignored).string();
  const auto [there, taken] = folders->emplace(folder, options.served_model_name);
  if (taken) return OkStatus();
  return InvalidArgument(StrCat("--dump-activations would write the steps of the models ",
                                Quote(there->second), " and ", Quote(options.served_model_name),
                                " to the same files in ", Quote(wanted.folder),
                                "; serve one of them, or give each a folder of its own, with "
                                "dump-activations in its table of the settings file"),
                         "dump-activations");
}

Status Preload(const std::string& preload, std::vector<ModelToServe>* models) {
  for (ModelToServe& model : *models) model.at_start = preload == "all";
  if (preload == "all" || preload == "none") return OkStatus();
  std::istringstream list(preload);
  for (std::string name; std::getline(list, name, ',');) {
    const auto found = std::find_if(models->begin(), models->end(),
                                    [&](const ModelToServe& model) { return model.name == name; });
    if (found == models->end()) {
      return InvalidArgument(StrCat("--preload names ", Quote(name),
                                    ", which is no model here; give all, none, or names of MODEL"),
                             "preload");
    }
    found->at_start = true;
  }
  return OkStatus();
}

}  // namespace

NamedModel ReadNamedModel(const std::string& word) {
  const size_t equals = word.find('=');
  std::error_code ignored;
  const bool named = equals != std::string::npos && equals > 0 &&
                     word.substr(0, equals).find('/') == std::string::npos &&
                     !std::filesystem::exists(word, ignored);
  if (!named) return {"", word};
  return {word.substr(0, equals), word.substr(equals + 1)};
}

Result<std::vector<ModelToServe>> ModelsToServe(const std::vector<std::string>& words,
                                                const EngineOptions& options, bool budgeted,
                                                const std::string& preload,
                                                const std::string& trace_file,
                                                const std::vector<ModelTable>& tables) {
  const bool several = words.size() > 1;
  if (several && !options.served_model_name.empty()) {
    return InvalidArgument("--served-model-name is for one model; name several as NAME=MODEL",
                           "served-model-name");
  }
  std::vector<ModelToServe> models;
  std::map<std::string, std::string> dump_folders;
  for (const std::string& word : words) {
    SLUICE_ASSIGN_OR_RETURN(Told told, ToldOf(word, options, tables));
    EngineOptions& own = told.options;
    // Where one model is loaded at once, it tells its name itself.
    std::unique_ptr<Engine> loaded;
    if (!several && !budgeted && preload == "all") {
      SLUICE_ASSIGN_OR_RETURN(loaded, WithSource(Load(own, trace_file), told.settings));
      own.served_model_name = loaded->Info().model_name;
    } else if (own.served_model_name.empty()) {
      SLUICE_ASSIGN_OR_RETURN(own.served_model_name, OwnName(own.model));
    }
    for (const ModelToServe& other : models) {
      if (other.name != own.served_model_name) continue;
      return InvalidArgument(StrCat("two models have the name ", Quote(other.name),
                                    "; give one another, as NAME=MODEL"),
                             "model");
    }
    SLUICE_RETURN_IF_ERROR(TakeDumpFolder(own, &dump_folders));
    if (loaded != nullptr) own.dump_activations.clear();
    models.push_back(ToServe(told, trace_file));
    models.back().loaded = std::move(loaded);
  }
  SLUICE_RETURN_IF_ERROR(Preload(preload, &models));
  TellOfUnusedTables(models, tables);
  return models;
}

}  // namespace sluice::cli
