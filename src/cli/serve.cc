// sluice serve: the HTTP server, from loading the models to the end of the last request.
#include <CLI/CLI.hpp>
#include <atomic>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>
#include <thread>

#include "base/log_options.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "cli/cli.h"
#include "cli/file_limit.h"
#include "cli/models_to_serve.h"
#include "cli/settings.h"
#include "cli/signals.h"
#include "sluice/server.h"

namespace sluice::cli {
namespace {

// Lets running requests end; a second signal cancels them, and they tell their clients.
void StopServer(Server& server, int drain_seconds) {
  LogInfo("stopping: running requests get up to ", drain_seconds,
          " s; a second signal ends them at once, and the program within ", kForcedEndSeconds,
          " s; a third ends the program");
  std::atomic<bool> stopped = false;
  std::thread second([&] {
    while (WaitForServerSignal() == ServerSignal::kReload) {
    }
    if (stopped) return;
    server.HurryStop();
  });
  server.Stop(drain_seconds);
  stopped = true;
  WakeSignalWaiter();
  second.join();
}

void ReloadKeys(Server& server, const ServerOptions& options) {
  if (const Status status = server.ReloadKeys(); !status.ok()) {
    LogError("the API keys stay as they were: ", status.message());
  } else {
    LogInfo("the API keys of ", Quote(options.api_key_file), " were read again");
  }
}

std::string UrlOf(const ServerOptions& options, int port) {
  const bool v6 = options.host.find(':') != std::string::npos;
  return StrCat(options.tls_cert.empty() ? "http://" : "https://", v6 ? "[" : "", options.host,
                v6 ? "]" : "", ":", port);
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

void AddTraceOption(CLI::App& app, std::string* file) {
  app.add_option(
         "--trace", *file,
         "write what each step of each model does to this file, for ui.perfetto.dev; default: "
         "nowhere")
      ->type_name("TEXT")
      ->group("Server options");
}

// Before the model is loaded, which may take minutes.
Status CheckTrace(const std::string& file) {
  if (file.empty() || std::ofstream(file, std::ios::app)) return OkStatus();
  return Status(StatusCode::kIo,
                StrCat("the trace cannot be written to ", Quote(file),
                       "; name a file of a folder that is there with --trace"),
                "trace");
}

struct ServeOptions {
  std::vector<std::string> models;
  std::string preload = "all";
  EngineOptions engine;
  ServerOptions server;
  LogOptions log;
  std::string trace_file;
  std::set<std::string> on_line;  // names of the options that stand on the command line
};

// "a", "b" at https://127.0.0.1:8000, with the API keys of "keys.txt"
std::string ServingLine(const std::string& names, const ServerOptions& options, int port) {
  return StrCat("serving ", names, " at ", UrlOf(options, port),
                options.api_key_file.empty()
                    ? std::string(", no API key is asked for")
                    : StrCat(", with the API keys of ", Quote(options.api_key_file)));
}

Status Serve(const ServeOptions& options, const std::vector<ModelTable>& tables) {
  SetLogAsAsked(options.log);
  RaiseFileLimit();
  SLUICE_RETURN_IF_ERROR(Server::Check(options.server));
  SLUICE_RETURN_IF_ERROR(CheckTrace(options.trace_file));
  SLUICE_ASSIGN_OR_RETURN(
      std::vector<ModelToServe> models,
      ModelsToServe(options.models, options.engine, !options.server.memory_budget.empty(),
                    options.preload, options.trace_file, tables));
  std::string names;
  for (const ModelToServe& model : models) {
    names += StrCat(names.empty() ? "" : ", ", Quote(model.name));
  }
  // Not before: a signal that comes while models are loaded ends the program at once. Not later:
  // one that comes behind the first request lets that end.
  const auto take_signals = [&server_options = options.server] {
    HandleServerSignals(server_options.drain_seconds, !server_options.api_key_file.empty());
  };
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Server> server,
                          Server::Start(std::move(models), options.server, take_signals));
  std::cout << ServingLine(names, options.server, server->port()) << std::endl;
  std::cout.clear();  // whoever started the server need not read that line
  while (WaitForServerSignal() == ServerSignal::kReload) ReloadKeys(*server, options.server);
  StopServer(*server, options.server.drain_seconds);
  return OkStatus();
}

}  // namespace

Action SetUpServe(CLI::App& app) {
  auto options = std::make_shared<ServeOptions>();
  AddServerOptions(app, &options->server);
  app.add_option("--preload", options->preload,
                 "of several models, those that are loaded from the start: all, none, or "
                 "NAME[,...]")
      ->type_name("TEXT")
      ->group("Server options")
      ->capture_default_str();
  AddLogOptions(app, &options->log);
  AddTraceOption(app, &options->trace_file);
  AddEngineOptions(app, &options->engine, &options->models);
  // Before environment and file fill in the others.
  app.parse_complete_callback([options, &app] { options->on_line = OptionsGiven(app); });
  return [options, &app]() -> Status {
    const auto config = app.get_option("--config")->results();
    SLUICE_ASSIGN_OR_RETURN(
        const std::vector<ModelTable> tables,
        ReadModelTables(*app.get_parent(), app, config.empty() ? "" : config.front(),
                        options->on_line));
    return Serve(*options, tables);
  };
}

}  // namespace sluice::cli
