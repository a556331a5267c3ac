// The HTTP server over one Engine. Start returns once the port listens; everything runs on the
// server's own threads. The engine must outlive the server. Start and Stop are called by one
// thread.
#pragma once

#include <memory>
#include <string>

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

  // As EngineOptions::ForEach.
  template <class Visitor>
  void ForEach(Visitor&& v) {
    v(host, "host", "address to listen on; 0.0.0.0 is every IPv4 one");
    v(port, "port", "TCP port; 0: the system chooses one, which is printed", 0, 65535);
    v(api_key_file, "api-key-file", "file of API keys, one a line; default: no key is asked for");
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
  }
};

class Server {
 public:
  virtual ~Server() = default;  // as Stop(0)

  // What Start would say of the options and the port now, for a caller that has minutes of loading
  // before it. kInvalidArgument: an option or the key file; kIo: the port cannot be had.
  static Status Check(const ServerOptions& options);
  // Errors as Check's.
  static Result<std::unique_ptr<Server>> Start(Engine& engine, const ServerOptions& options);

  // The port that it listens on.
  virtual int port() const = 0;
  // Accepts no more connections, waits up to `drain_seconds` for running requests, cancels what is
  // left, and ends. Later calls do nothing.
  virtual void Stop(double drain_seconds) = 0;
};

}  // namespace sluice
