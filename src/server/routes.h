// Which path does what: two calls per request, for its header and for the whole. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/activity_log.h"
#include "server/api_call.h"
#include "server/api_keys.h"
#include "server/http.h"
#include "server/request_log.h"

namespace sluice::server {

class Routes {
 public:
  // `connections` counts the open ones, for /metrics.
  Routes(Engine& engine, ApiKeys keys, std::function<int64_t()> connections,
         RequestsLogged logged = RequestsLogged::kNone);

  // What refuses a request by its header (key, path, method), or nothing; then the request has its
  // key's salt.
  std::optional<HttpReply> Admit(HttpRequest* head);

  // Answers through the exchange, now or later. Never throws.
  // REQUIRES: the request was admitted.
  void Handle(HttpRequest request, std::shared_ptr<Exchange> exchange);

  // Counts and logs a request that is over.
  void Ended(const ExchangeRecord& record);
  const TokenTotals& tokens() const { return tokens_; }

 private:
  struct Route;
  static const Route kRoutes[];
  static const Route* Find(const std::string& path);

  HttpReply Models(const HttpRequest& request) const;
  HttpReply Model(const HttpRequest& request) const;
  HttpReply Health(const HttpRequest& request) const;
  HttpReply Live(const HttpRequest& request) const;
  HttpReply Ready(const HttpRequest& request) const;
  HttpReply Metrics(const HttpRequest& request) const;
  HttpReply Version(const HttpRequest& request) const;
  HttpReply OpenApi(const HttpRequest& request) const;
  HttpReply Home(const HttpRequest& request) const;
  HttpReply TokenizeText(const HttpRequest& request) const;
  HttpReply DetokenizeIds(const HttpRequest& request) const;
  HttpReply RenderTemplate(const HttpRequest& request) const;
  void Generate(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void Dispatch(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange);

  Engine& engine_;
  const ApiKeys keys_;
  const std::function<int64_t()> connections_;
  const ModelFacts model_;
  const std::string fingerprint_;
  const int64_t started_;  // seconds since the epoch

  RequestLog log_;
  TokenTotals tokens_;
};

}  // namespace sluice::server
