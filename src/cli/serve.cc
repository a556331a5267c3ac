// sluice serve: the HTTP server, from loading the model to the end of the last request.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <iostream>
#include <memory>
#include <thread>

#include "base/log_options.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "cli/cli.h"
#include "cli/open_engine.h"
#include "cli/signals.h"
#include "sluice/engine.h"
#include "sluice/server.h"

namespace sluice::cli {
namespace {

// Each connection is a file descriptor; the default of 1024 is soon used up.
constexpr rlim_t kFilesMax = 1u << 16;

// Lets running requests end; a second signal cancels them, and they tell their clients.
void StopServer(Engine& engine, Server& server, int drain_seconds) {
  LogInfo("stopping: running requests get up to ", drain_seconds,
          " s; a second signal ends them at once, and the program within ", kForcedEndSeconds,
          " s; a third ends the program");
  std::atomic<bool> stopped = false;
  std::thread second([&] {
    WaitForStopSignal();
    if (stopped) return;
    if (const Status status = engine.Drain(0); !status.ok()) LogWarning(status.message());
  });
  server.Stop(drain_seconds);
  stopped = true;
  WakeStopWaiter();
  second.join();
}

void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min(limit.rlim_max, kFilesMax);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::string UrlOf(const ServerOptions& options, int port) {
  const bool v6 = options.host.find(':') != std::string::npos;
  return StrCat("http://", v6 ? "[" : "", options.host, v6 ? "]" : "", ":", port);
}

struct LogOptions {
  std::string level = "info", format = "text";
};

void AddLogOptions(CLI::App& app, LogOptions* options) {
  app.add_option("--log-level", options->level, "the least of the log: info, warning or error")
      ->check(CLI::IsMember({"info", "warning", "error"}))
      ->type_name("TEXT")
      ->group("Server options")
      ->capture_default_str();
  app.add_option("--log-format", options->format, "text, or json: an object a line")
      ->check(CLI::IsMember({"text", "json"}))
      ->type_name("TEXT")
      ->group("Server options")
      ->capture_default_str();
}

void SetLogAsAsked(const LogOptions& options) {
  SetLog(options.level == "error"     ? LogLevel::kError
         : options.level == "warning" ? LogLevel::kWarning
                                      : LogLevel::kInfo,
         options.format == "json" ? LogFormat::kJson : LogFormat::kText);
}

Status Serve(const EngineOptions& engine_options, const ServerOptions& server_options,
             const LogOptions& log_options) {
  SetLogAsAsked(log_options);
  RaiseFileLimit();
  SLUICE_RETURN_IF_ERROR(Server::Check(server_options));
  // A large model takes its time, and without a terminal there is no progress to see.
  LogInfo("model: loading ", Quote(engine_options.model));
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, OpenEngine(engine_options));
  const EngineInfo info = engine->Info();
  LogInfo("device: ", info.device_reason, "; kernels ", info.kernels);
  LogInfo("memory: ", info.memory, "; room for up to ", info.kv_blocks * info.block_size,
          " tokens, in up to ", info.max_num_seqs, " sequences of ", info.max_model_len);
  LogInfo("answers: tool calls told apart as ", info.tool_parser, ", thinking as ",
          info.reasoning_parser);
  HandleStopSignals(server_options.drain_seconds);
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Server> server, Server::Start(*engine, server_options));
  std::cout << "serving " << Quote(info.model_name) << " at "
            << UrlOf(server_options, server->port())
            << (server_options.api_key_file.empty() ? ", no API key is asked for"
                                                    : ", with the API keys of ")
            << (server_options.api_key_file.empty() ? "" : Quote(server_options.api_key_file))
            << std::endl;
  std::cout.clear();  // whoever started the server need not read that line
  WaitForStopSignal();
  StopServer(*engine, *server, server_options.drain_seconds);
  return OkStatus();
}

}  // namespace

Action SetUpServe(CLI::App& app) {
  struct Options {
    EngineOptions engine;
    ServerOptions server;
    LogOptions log;
  };
  auto options = std::make_shared<Options>();
  AddServerOptions(app, &options->server);
  AddLogOptions(app, &options->log);
  AddEngineOptions(app, &options->engine);
  return [options] { return Serve(options->engine, options->server, options->log); };
}

}  // namespace sluice::cli
