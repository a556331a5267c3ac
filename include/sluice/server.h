// The HTTP server over one Engine, or over models that it loads and unloads. Start returns once the
// port listens; everything runs on the server's own threads. Start and Stop are called by one
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sluice/engine.h"
#include "sluice/status.h"

namespace sluice {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string api_key_file;
  std::string allow_host;
  std::string allow_origin;
  int http_threads = 2;
  int max_connections = 4096;
  int max_body_bytes = 16 << 20;
  int max_header_bytes = 16 << 10;
  int idle_seconds = 60;
  int stream_buffer_bytes = 1 << 20;
  int drain_seconds = 30;
  std::string log_requests = "all";
  std::string tls_cert;
  std::string tls_key;
  std::string memory_budget;
  bool models_autoload = true;

  // As EngineOptions::ForEach.
  template <class Visitor>
  void ForEach(Visitor&& v) {
    v(host, "host", "address to listen on; 0.0.0.0 is every IPv4 one");
    v(port, "port", "TCP port; 0: the system chooses one, which is printed", 0, 65535);
    v(api_key_file, "api-key-file",
      "file of API keys, one a line; behind a key weight=N gives its requests N times the share "
      "of others, and admin lets it load and unload models and use /admin; read again at SIGHUP; "
      "default: no key is asked for");
    v(allow_host, "allow-host",
      "NAME[,...]: host names to answer to beside loopback's, * is every name; default: every "
      "name, but loopback's alone for a server on loopback without keys");
    v(allow_origin, "allow-origin",
      "ORIGIN[,...]: web pages, as https://NAME:PORT, whose scripts may call this server, * is "
      "every "
      "one; default: none");
    v(http_threads, "http-threads", "threads for the network, and as many for requests' bodies", 1,
      64);
    v(max_connections, "max-connections", "open connections", 1, 1 << 20);
    v(max_body_bytes, "max-body-bytes", "bytes of a request's body", 1024, 1 << 30);
    v(max_header_bytes, "max-header-bytes", "bytes of a request's header", 1024, 1 << 20);
    v(idle_seconds, "idle-seconds",
      "seconds without progress after which a connection is closed, and for a request to arrive", 1,
      86400);
    v(stream_buffer_bytes, "stream-buffer-bytes",
      "bytes that wait for a slow reader; past them its request is cancelled", 4096, 1 << 30);
    v(drain_seconds, "drain-seconds", "seconds that running requests get at the end", 0, 86400);
    v(log_requests, "log-requests",
      "requests that have a line in the log: all (but GETs that go well), errors or none; beside "
      "none, a line every 10 s while there is work");
    v(tls_cert, "tls-cert",
      "PEM file with the certificate for HTTPS, and behind it those that it is signed with; "
      "default: plain HTTP");
    v(tls_key, "tls-key", "PEM file with the certificate's private key, without a passphrase");
    v(memory_budget, "memory-budget",
      "memory that loaded models may have together, weights and KV caches, as 16GiB; default: what "
      "the device has");
    v(models_autoload, "models-autoload",
      "load a model that a request names, if it fits beside the loaded ones; without it such a "
      "request is refused");
  }
};

// A model that a server can load.
struct ModelToServe {
  std::string name;  // that clients use; no two are the same
  // Loads it. Called by a thread of the server, for one model at a time.
  std::function<Result<std::unique_ptr<Engine>>()> open;
  // Bytes that it will take of the device's memory, asked before each load where there is a budget.
  std::function<Result<int64_t>()> need;
  std::unique_ptr<Engine> loaded;  // may be null
  bool at_start = true;            // Start loads it
};

class Server {
 public:
  virtual ~Server() = default;  // as Stop(0)

  // What Start would say of the options and the port now, for a caller that has minutes of loading
  // before it. kInvalidArgument: an option, the key file, or the files for TLS; kIo: the port
  // cannot be had.
  static Status Check(const ServerOptions& options);
  // Errors as Check's. The engine must outlive the server, which does not unload it.
  static Result<std::unique_ptr<Server>> Start(Engine& engine, const ServerOptions& options);
  // Loads the models first that are to be loaded; then, before it takes a connection, calls
  // `loaded`, if that is not empty. Errors as Check's, as those of ModelToServe::open, and
  // kOutOfMemory for what is over the budget. REQUIRES: there is a model.
  static Result<std::unique_ptr<Server>> Start(std::vector<ModelToServe> models,
                                               const ServerOptions& options,
                                               const std::function<void()>& loaded = nullptr);

  // Reads the key file again. An error leaves the keys as they were: kInvalidArgument, as of Check;
  // kFailedPrecondition where the server began without keys. Any thread.
  virtual Status ReloadKeys() = 0;
  // The port that it listens on.
  virtual int port() const = 0;
  // Accepts no more connections, waits up to `drain_seconds` for running requests, cancels what is
  // left, and ends. Later calls do nothing.
  virtual void Stop(double drain_seconds) = 0;
  // Cancels what Stop waits for. Any thread.
  virtual void HurryStop() = 0;
};

}  // namespace sluice
