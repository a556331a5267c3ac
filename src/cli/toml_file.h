// A TOML file as options: keys with plain values, at the top, in tables of one level, and in tables
// [models.NAME]. Pure.
#pragma once

#include <string>
#include <vector>

#include "sluice/status.h"

namespace sluice::cli {

// The table that holds a table for each model.
constexpr char kModelsTable[] = "models";

struct TomlEntry {
  std::string table;                // empty: at the top
  std::string model;                // NAME of [models.NAME], where `table` is kModelsTable
  std::string key;                  // empty: the table itself stands there
  std::vector<std::string> values;  // as a command line would have them; of an array, its items
  int line = 0;
};

// In the order of lines. kInvalidArgument, beginning with "PATH, line N: ", for what is no TOML and
// for values that no option has (dates, tables within tables).
Result<std::vector<TomlEntry>> ParseToml(const std::string& text, const std::string& path);

}  // namespace sluice::cli
