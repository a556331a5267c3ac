// sluice bench --serve: a load on an HTTP server of this program, in this process, or on any server
// of OpenAI's API that is there already. Main thread.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/load/workload.h"
#include "sluice/options.h"
#include "sluice/status.h"

namespace sluice::cli {

struct ServeBenchOptions {
  bool serve = false;
  std::string url, key_file;
  load::WorkloadOptions work;
  std::optional<double> rate;  // none: a closed loop
  double burstiness = 1;
  std::optional<int> concurrency;
  std::vector<std::string> goodput;
  int warmup = 0;
  int timeout_s = 600;
  bool detailed = false;
};

// Declares all of them but --output-tokens, which is sluice bench's.
void AddServeBenchOptions(CLI::App& app, ServeBenchOptions* options);

// Refuses options of `app` that were given and mean nothing with, or without, --serve.
Status CheckServeBenchOptions(const CLI::App& app, const ServeBenchOptions& options);

// Puts the load on the server and prints its figures. `engine` is of the server that is started
// where there is no url.
Status RunServeBench(const EngineOptions& engine, const ServeBenchOptions& options, bool json);

}  // namespace sluice::cli
