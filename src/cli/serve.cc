// sluice serve: the HTTP server, from loading the model to the end of the last request.
#include <semaphore.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <iostream>
#include <memory>
#include <thread>

#include "base/log.h"
#include "base/str_cat.h"
#include "cli/cli.h"
#include "sluice/engine.h"
#include "sluice/server.h"

namespace sluice::cli {
namespace {

// Each connection is a file descriptor; the default of 1024 is soon used up.
constexpr rlim_t kFilesMax = 1u << 16;

sem_t stop_asked;
std::atomic<int> signals = 0;

// The second signal does not wait for the requests that the first one waits for; the third waits
// for nothing.
extern "C" void OnStopSignal(int) {
  if (++signals > 2) _exit(130);
  sem_post(&stop_asked);
}

void HandleSignals() {
  sem_init(&stop_asked, 0, 0);
  struct sigaction action {};
  action.sa_handler = OnStopSignal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void WaitForSignal() {
  while (sem_wait(&stop_asked) != 0 && errno == EINTR) {
  }
}

// Lets running requests end; a second signal cancels them, and they tell their clients.
void StopServer(Engine& engine, Server& server, int drain_seconds) {
  LogInfo("stopping: running requests get up to ", drain_seconds,
          " s; a second signal ends them at once, a third the program");
  std::atomic<bool> stopped = false;
  std::thread second([&] {
    WaitForSignal();
    if (stopped) return;
    if (const Status status = engine.Drain(0); !status.ok()) LogWarning(status.message());
  });
  server.Stop(drain_seconds);
  stopped = true;
  sem_post(&stop_asked);
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

// "loading SmolLM2.gguf 37 %" on one line of a terminal.
class LoadProgress {
 public:
  explicit LoadProgress(std::string model)
      : model_(std::move(model)), terminal_(isatty(STDERR_FILENO) != 0) {}

  void Show(int64_t done, int64_t total) {
    const int percent = total > 0 ? static_cast<int>(done * 100 / total) : 100;
    if (!terminal_ || percent == shown_) return;
    shown_ = percent;
    std::cerr << "\rloading " << model_ << " " << percent << " %" << std::flush;
  }
  void End() {
    if (shown_ >= 0) std::cerr << "\r\x1b[K" << std::flush;
  }

 private:
  const std::string model_;
  const bool terminal_;
  int shown_ = -1;
};

std::string UrlOf(const ServerOptions& options, int port) {
  const bool v6 = options.host.find(':') != std::string::npos;
  return StrCat("http://", v6 ? "[" : "", options.host, v6 ? "]" : "", ":", port);
}

Status Serve(const EngineOptions& engine_options, const ServerOptions& server_options) {
  RaiseFileLimit();
  LoadProgress progress(engine_options.model);
  auto engine = Engine::Open(engine_options,
                             [&](int64_t done, int64_t total) { progress.Show(done, total); });
  progress.End();
  if (!engine.ok()) return engine.status();
  LogInfo("device: ", (*engine)->Info().device_reason);
  HandleSignals();
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Server> server, Server::Start(**engine, server_options));
  std::cout << "serving " << (*engine)->Info().model_name << " at "
            << UrlOf(server_options, server->port()) << std::endl;
  WaitForSignal();
  StopServer(**engine, *server, server_options.drain_seconds);
  return OkStatus();
}

}  // namespace

Action SetUpServe(CLI::App& app) {
  struct Options {
    EngineOptions engine;
    ServerOptions server;
  };
  auto options = std::make_shared<Options>();
  AddServerOptions(app, &options->server);
  AddEngineOptions(app, &options->engine);
  return [options] { return Serve(options->engine, options->server); };
}

}  // namespace sluice::cli
