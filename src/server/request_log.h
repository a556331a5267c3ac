// One line of the log for each request, and a count of them for /metrics. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "server/http/http.h"

namespace sluice::server {

// Which requests have a line.
enum class RequestsLogged { kNone, kErrors, kAll };

// "none", "errors" or "all". kInvalidArgument for anything else.
Result<RequestsLogged> ParseRequestsLogged(const std::string& text);

// POST /v1/completions 200 in 431 ms: 12 prompt tokens, 30 tokens, stop; id run-7, from 127.0.0.1
std::string RequestLine(const ExchangeRecord& record);

// The same as fields of a JSON log, which docs/running.md lists.
OrderedJson RequestFields(const ExchangeRecord& record);

class RequestLog {
 public:
  explicit RequestLog(RequestsLogged which) : which_(which) {}

  // `route`: the path as it is served, or "other". What a GET answers well is counted and has no
  // line: health checks and scrapes come every few seconds. 4xx are warnings, but for a client that
  // left; 5xx are errors.
  void Add(const ExchangeRecord& record, const std::string& route);

  // The last 32 that were answered with an error, newest first.
  OrderedJson RecentErrors() const;

  // The family sluice_http_requests_total in Prometheus' text format.
  std::string Metrics() const;

 private:
  const RequestsLogged which_;
  mutable std::mutex mutex_;                                  // guards the rest
  std::map<std::pair<std::string, int>, uint64_t> requests_;  // by route and status
  std::deque<OrderedJson> errors_;                            // newest first
};

}  // namespace sluice::server
