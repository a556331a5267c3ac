#include "cli/settings.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "base/environment.h"
#include "base/regular_file.h"
#include "base/str_cat.h"
#include "cli/toml_file.h"

namespace sluice::cli {
namespace {

constexpr size_t kConfigBytesMax = size_t{1} << 20;
constexpr std::string_view kPrefix = "SLUICE_";
constexpr char kServe[] = "serve";  // the one command that takes several models

// Names that are no option with a value of its own: of --config, of the cache, of devices, and of
// the scripts and tests around this program, which hand their environment on.
constexpr std::string_view kOtherVariables[] = {
    "SLUICE_CACHE",     "SLUICE_CLIENTS",       "SLUICE_CONFIG",         "SLUICE_DOWNLOADS",
    "SLUICE_FIXTURES",  "SLUICE_GOLDEN_DEVICE", "SLUICE_LOGS",           "SLUICE_PRODUCTS",
    "SLUICE_PYTHON",    "SLUICE_ROOT",          "SLUICE_SCHEMAS",        "SLUICE_SIM_SEED",
    "SLUICE_SIM_STEPS", "SLUICE_VENV",          "SLUICE_XPU_ANY_VENDOR", "SLUICE_XPU_GPU_KERNELS",
};

// What an option is called in environment and file; empty for one that stands in neither.
std::string NameOf(const CLI::Option& option) {
  if (option.get_lnames().empty()) return option.get_name() == "model" ? "model" : "";
  const std::string& name = option.get_lnames().front();
  return name == "help" || name == "config" ? "" : name;
}

std::string VariableOf(const std::string& name) {
  std::string variable = StrCat(kPrefix, name);
  std::transform(variable.begin(), variable.end(), variable.begin(), [](unsigned char c) {
    return c == '-' ? '_' : static_cast<char>(std::toupper(c));
  });
  return variable;
}

// As in the file, where either sign is common between words.
std::string WithDashes(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return key;
}

std::set<std::string> NamesOf(const CLI::App& command) {
  std::set<std::string> names;
  for (const CLI::Option* option : command.get_options()) names.insert(NameOf(*option));
  names.erase("");
  return names;
}

// Of those that a model may have for itself; its name is that of its table.
std::set<std::string> NamesOfEngine(const CLI::App& serve) {
  std::set<std::string> names;
  for (const CLI::Option* option : serve.get_options()) {
    const std::string name = NameOf(*option);
    if (name == "model" || option->get_group() == kEngineGroup) names.insert(name);
  }
  names.erase("served-model-name");
  return names;
}

std::string InEnvironment(const std::string& name) { return Environment(VariableOf(name).c_str()); }

// The checks of one file, of which the first that fails counts.
class FileReader {
 public:
  FileReader(const CLI::App& app, const CLI::App& command, const std::string& path)
      : path_(path), command_(command.get_name()) {
    for (const CLI::App* sub : app.get_subcommands({})) {
      names_[sub->get_name()] = NamesOf(*sub);
      if (sub->get_name() == kServe) engine_names_ = NamesOfEngine(*sub);
    }
  }

  Status Read(Settings* settings, std::vector<ModelTable>* models) {
    auto text = ReadRegularFile(path_, kConfigBytesMax);
    if (!text.ok()) {
      return InvalidArgument(StrCat("the file of --config, or of SLUICE_CONFIG, cannot be read: ",
                                    text.status().message()));
    }
    SLUICE_ASSIGN_OR_RETURN(const std::vector<TomlEntry> entries, ParseToml(*text, path_));
    SLUICE_RETURN_IF_ERROR(ReadModels(entries, models));
    for (const bool in_table : {false, true}) {
      std::set<std::string> seen;
      for (const TomlEntry& entry : entries) {
        if (entry.table.empty() == in_table || entry.table == kModelsTable) continue;
        SLUICE_RETURN_IF_ERROR(Check(entry));
        const std::string name = WithDashes(entry.key);
        if (entry.key.empty() || (in_table && entry.table != command_)) continue;
        if (!seen.insert(name).second) return Wrong(entry, StrCat(name, " stands there twice"));
        if (!names_[command_].contains(name)) continue;
        (*settings)[name] = {entry.values, SourceOf(entry)};
      }
    }
    if (command_ == kServe && !settings->contains("model")) NameModels(*models, settings);
    return OkStatus();
  }

 private:
  std::string SourceOf(const TomlEntry& entry) const {
    return StrCat(path_, ", line ", entry.line);
  }

  Status ReadModels(const std::vector<TomlEntry>& entries, std::vector<ModelTable>* models) const {
    for (const TomlEntry& entry : entries) {
      if (entry.table != kModelsTable) continue;
      const std::string name = WithDashes(entry.key);
      if (entry.model.empty()) {
        if (name.empty()) continue;
        return Wrong(entry, StrCat(name,
                                   " stands in the table of all models, which holds a table "
                                   "[models.NAME] for each; write it there, or in [serve]"));
      }
      auto table = std::find_if(models->begin(), models->end(),
                                [&](const ModelTable& one) { return one.name == entry.model; });
      if (table == models->end()) {
        models->push_back({entry.model, SourceOf(entry), {}});
        table = models->end() - 1;
      }
      if (name.empty()) continue;
      if (!engine_names_.contains(name)) {
        return Wrong(entry, StrCat("a model has no option ", name,
                                   " of its own; see the engine options of sluice serve --help"));
      }
      if (table->settings.contains(name)) {
        return Wrong(entry, StrCat(name, " stands there twice"));
      }
      table->settings[name] = {entry.values, SourceOf(entry)};
    }
    return OkStatus();
  }

  static void NameModels(const std::vector<ModelTable>& models, Settings* settings) {
    Setting names;
    for (const ModelTable& model : models) {
      if (!model.settings.contains("model")) continue;
      names.values.push_back(model.name);
      if (names.source.empty()) names.source = model.source;
    }
    if (!names.values.empty()) (*settings)["model"] = names;
  }

  Status Wrong(const TomlEntry& entry, const std::string& message) const {
    return InvalidArgument(StrCat(SourceOf(entry), ": ", message));
  }

  Status Check(const TomlEntry& entry) const {
    const auto table = names_.find(entry.table);
    if (!entry.table.empty() && table == names_.end()) {
      return Wrong(entry, StrCat("there is no command \"", entry.table,
                                 "\" that the table could be for; see sluice --help"));
    }
    const std::string name = WithDashes(entry.key);
    if (name.empty()) return OkStatus();
    if (!entry.table.empty()) {
      if (table->second.contains(name)) return OkStatus();
      return Wrong(entry, StrCat("sluice ", entry.table, " has no option ", name, "; see sluice ",
                                 entry.table, " --help"));
    }
    const bool known = std::any_of(names_.begin(), names_.end(),
                                   [&](const auto& one) { return one.second.contains(name); });
    if (known) return OkStatus();
    return Wrong(entry,
                 StrCat("no command has an option ", name, "; see sluice ", command_, " --help"));
  }

  const std::string& path_;
  const std::string command_;
  std::map<std::string, std::set<std::string>> names_;  // of options, by command
  std::set<std::string> engine_names_;                  // of options of one model
};

// Of what CLI11 throws at a value.
std::string Complaint(const CLI::Option& option, const Setting& setting, const CLI::Error& error) {
  std::string value;
  for (const std::string& one : setting.values) value += (value.empty() ? "" : ", ") + one;
  const bool flag = option.get_items_expected_min() == 0;
  const bool number = dynamic_cast<const CLI::ConversionError*>(&error) != nullptr;
  const std::string what = error.what();
  const size_t colon = what.find(": ");
  return StrCat(setting.source, ": ", NameOf(option), " is \"", value, "\"; ",
                flag                         ? "it must be true or false"
                : number                     ? "it must be a number"
                : colon == std::string::npos ? what
                                             : what.substr(colon + 2));
}

}  // namespace

Result<Settings> ReadSettings(const CLI::App& app, const CLI::App& command,
                              const std::string& config_path) {
  Settings settings;
  if (!config_path.empty()) {
    std::vector<ModelTable> models;
    SLUICE_RETURN_IF_ERROR(FileReader(app, command, config_path).Read(&settings, &models));
  }
  for (const std::string& name : NamesOf(command)) {
    const std::string value = InEnvironment(name);
    if (value.empty()) continue;
    settings[name] = {{value}, StrCat("the environment variable ", VariableOf(name))};
  }
  return settings;
}

Result<std::vector<ModelTable>> ReadModelTables(const CLI::App& app, const CLI::App& serve,
                                                const std::string& config_path,
                                                const std::set<std::string>& given) {
  std::vector<ModelTable> models;
  if (config_path.empty()) return models;
  Settings ignored;
  SLUICE_RETURN_IF_ERROR(FileReader(app, serve, config_path).Read(&ignored, &models));
  for (ModelTable& model : models) {
    // Which models there are is for the words of the command line, so that theirs stays here.
    std::erase_if(model.settings, [&](const auto& one) {
      return one.first != "model" &&
             (given.contains(one.first) || !InEnvironment(one.first).empty());
    });
  }
  return models;
}

std::set<std::string> OptionsGiven(const CLI::App& command) {
  std::set<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() > 0) names.insert(NameOf(*option));
  }
  return names;
}

Status ApplySettings(CLI::App& command, Settings* settings) {
  for (CLI::Option* option : command.get_options()) {
    const auto found = settings->find(NameOf(*option));
    if (found == settings->end()) continue;
    if (option->count() > 0) {
      settings->erase(found);
      continue;
    }
    const Setting& setting = found->second;
    if (setting.values.size() > 1 && option->get_expected_max() == 1) {
      return InvalidArgument(StrCat(setting.source, ": ", found->first,
                                    " takes one value and is given ", setting.values.size()));
    }
    try {
      option->add_result(setting.values);
      option->run_callback();
    } catch (const CLI::Error& error) {
      return InvalidArgument(Complaint(*option, setting, error));
    }
  }
  return OkStatus();
}

std::vector<std::string> UnknownVariables(const CLI::App& app) {
  std::set<std::string> known(std::begin(kOtherVariables), std::end(kOtherVariables));
  for (const CLI::App* sub : app.get_subcommands({})) {
    for (const std::string& name : NamesOf(*sub)) known.insert(VariableOf(name));
  }
  std::vector<std::string> unknown;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string name(text.substr(0, text.find('=')));
    if (name.starts_with(kPrefix) && !known.contains(name)) unknown.push_back(name);
  }
  return unknown;
}

}  // namespace sluice::cli
