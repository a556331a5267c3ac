// The models of `sluice serve`, from the words that name them. Main thread; what loads them runs on
// any.
#pragma once

#include <string>
#include <vector>

#include "cli/settings.h"
#include "sluice/options.h"
#include "sluice/server.h"

namespace sluice::cli {

// A model as the command line names it: MODEL, or NAME=MODEL.
struct NamedModel {
  std::string name;  // empty: its own
  std::string model;
};
NamedModel ReadNamedModel(const std::string& word);

// Those that `words` name, each opened with `options` and, over them, with those of the table that
// has its name. A word that is a table's name means the model that the table names. One model that
// needs no room within a budget
// (`budgeted`) is loaded here; of several, those of `preload` are to be loaded by the server:
// "all", "none", or names with commas. `trace_file`: of the steps of all; empty: none.
// Errors are those of Engine::Open, and kInvalidArgument for names that are wrong or there twice
// and for values that an option does not take; with file and line where a table is what is wrong.
Result<std::vector<ModelToServe>> ModelsToServe(const std::vector<std::string>& words,
                                                const EngineOptions& options, bool budgeted,
                                                const std::string& preload,
                                                const std::string& trace_file,
                                                const std::vector<ModelTable>& tables);

}  // namespace sluice::cli
