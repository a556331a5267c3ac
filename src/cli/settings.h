// What a command is told beside its command line: options in the environment and in the TOML file
// of --config. The command line wins over the environment, the environment over the file, and the
// file over the default. Main thread only.
#pragma once

#include <CLI/App.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sluice/status.h"

namespace sluice::cli {

struct Setting {
  std::vector<std::string> values;  // several for an option that may be repeated
  std::string source;               // "the environment variable SLUICE_PORT", "sluice.toml, line 3"
};

// By the option's name without dashes. MODEL has the name "model".
using Settings = std::map<std::string, Setting>;

// A table [models.NAME] of the file: what `sluice serve` is told of one of its models. MODEL has
// the name "model" here, too.
struct ModelTable {
  std::string name;
  std::string source;  // "sluice.toml, line 3"
  Settings settings;
};

// What environment and file say of `command`, a subcommand of `app`. An empty variable is none. In
// the file the keys at the top are for every command that has such an option, and those in a table
// named like a command for that one alone, where they win. Where neither names a model for `serve`,
// "model" is the names of the tables [models.NAME] that do. kInvalidArgument, with file and line:
// what is no TOML, a key that no command knows, a value of no option.
Result<Settings> ReadSettings(const CLI::App& app, const CLI::App& command,
                              const std::string& config_path);

// The group of the options that a model may have for itself.
constexpr char kEngineGroup[] = "Engine options";

// The tables [models.NAME], in the order of the file, without the options that environment or
// command line say of every model, since those win. `given`: names that stand on the command line
// (OptionsGiven). Errors are those of ReadSettings.
Result<std::vector<ModelTable>> ReadModelTables(const CLI::App& app, const CLI::App& serve,
                                                const std::string& config_path,
                                                const std::set<std::string>& given);

// Names of the options of `command` that have a value. Behind the parsing of a command line and
// before ApplySettings those are the ones that stand on it.
std::set<std::string> OptionsGiven(const CLI::App& command);

// Gives them to the options that the command line left out, and drops the others from `settings`.
// kInvalidArgument for a value that the option does not take; the message begins with its source.
Status ApplySettings(CLI::App& command, Settings* settings);

// Variables SLUICE_... of the environment that are no option of any command and nothing else that
// this program or its scripts read.
std::vector<std::string> UnknownVariables(const CLI::App& app);

}  // namespace sluice::cli
