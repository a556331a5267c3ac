// What a command is told beside its command line: options in the environment and in the TOML file
// of --config. The command line wins over the environment, the environment over the file, and the
// file over the default. Main thread only.
#pragma once

#include <CLI/App.hpp>
#include <map>
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

// What environment and file say of `command`, a subcommand of `app`. An empty variable is none. In
// the file the keys at the top are for every command that has such an option, and those in a table
// named like a command for that one alone, where they win. kInvalidArgument, with file and line:
// what is no TOML, a key that no command knows, a value of no option.
Result<Settings> ReadSettings(const CLI::App& app, const CLI::App& command,
                              const std::string& config_path);

// Gives them to the options that the command line left out, and drops the others from `settings`.
// kInvalidArgument for a value that the option does not take; the message begins with its source.
Status ApplySettings(CLI::App& command, Settings* settings);

// Variables SLUICE_... of the environment that are no option of any command and nothing else that
// this program or its scripts read.
std::vector<std::string> UnknownVariables(const CLI::App& app);

}  // namespace sluice::cli
