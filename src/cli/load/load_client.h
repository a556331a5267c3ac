// The client of a load: many streams at once over HTTP/1.1, on the calling thread alone. Its calls
// return when all is over; one at a time.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/load/outcome.h"
#include "cli/load/server_url.h"
#include "sluice/status.h"

namespace sluice::load {

// More connections at a time than this are not tried.
inline constexpr int kConcurrencyMax = 1024;

struct Target {
  ServerUrl url;
  std::string api_key;            // sent as a bearer token; empty: none
  int timeout_s = 600;            // without a byte of the server, after which a request has failed
  std::function<bool()> stopped;  // asked every 100 ms; true ends what runs; may be empty
};

struct Load {
  size_t requests = 0;
  // Seconds since the start at which each is sent, ascending. Empty: each as soon as one of the
  // `concurrency` connections is free.
  std::vector<double> arrivals_s;
  int concurrency = kConcurrencyMax;
  std::function<std::string(size_t index)> body;  // of a POST to /v1/completions
  std::function<void(size_t done)> progress;      // called every 100 ms; may be empty
};

// What became of each request. A connection serves one request after another; one that the server
// closed meanwhile is opened again. Errors (kIo): the host's name has no address, or the system
// refuses what the client needs. A server that refuses or cuts is no error but failed requests.
Result<std::vector<Outcome>> RunLoad(const Target& target, const Load& load);

struct Reply {
  int status = 0;  // of HTTP
  std::string body;
};

// One exchange; `body` is JSON, and empty for a GET. kUnavailable: there is no answer; kCancelled:
// it was stopped; kIo as of RunLoad.
Result<Reply> Exchange(const Target& target, std::string_view path, std::string body);

}  // namespace sluice::load
