// Which path does what: two calls per request, for its header and for the whole. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/activity_log.h"
#include "server/api_call.h"
#include "server/api_keys.h"
#include "server/gathering.h"
#include "server/generation.h"
#include "server/http.h"
#include "server/request_log.h"
#include "server/response_store.h"
#include "server/running_answers.h"

namespace sluice::server {

// A worker that is at one request for longer than this is taken for a hang, as a text worker of the
// engine is: what a client can make it do is limited to a few seconds, and others wait behind it.
inline constexpr int64_t kWorkMsMax = 10'000;

// What the HTTP server is at.
struct HttpState {
  int64_t connections = 0;     // open ones
  int64_t oldest_work_ms = 0;  // HttpServer::OldestWorkMs
};

class Routes {
 public:
  // `http` is asked for /metrics and for health.
  Routes(Engine& engine, ApiKeys keys, std::function<HttpState()> http,
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
  // The route of a path, of that method where it has several; null: none.
  static const Route* Find(const std::string& path, std::string_view method = {});
  static bool Names(const Route& route, const std::string& path);

  HttpReply Models(const HttpRequest& request) const;
  HttpReply Model(const HttpRequest& request) const;
  HttpReply Health(const HttpRequest& request) const;
  HttpReply Live(const HttpRequest& request) const;
  HttpReply Ready(const HttpRequest& request) const;
  HttpReply Metrics(const HttpRequest& request) const;
  HttpReply Version(const HttpRequest& request) const;
  HttpReply LlamaProps(const HttpRequest& request) const;
  HttpReply LlamaSlots(const HttpRequest& request) const;
  HttpReply OllamaTags(const HttpRequest& request) const;
  HttpReply OllamaRunning(const HttpRequest& request) const;
  HttpReply OllamaVersion(const HttpRequest& request) const;
  HttpReply OpenApi(const HttpRequest& request) const;
  HttpReply Page(const HttpRequest& request) const;
  HttpReply Control(const HttpRequest& request) const;
  HttpReply FindResponse(const HttpRequest& request) const;
  HttpReply DeleteResponse(const HttpRequest& request) const;
  void Generate(const Route& route, const HttpRequest& request,
                const std::shared_ptr<Exchange>& exchange);
  void Decide(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void FillGap(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void Respond(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  // Gives a call that was read to the engine.
  void Start(ApiCall call, const AnswerMaker& format, const HttpRequest& request,
             const std::shared_ptr<Exchange>& exchange);
  void Embed(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void Rerank(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void Classify(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void Score(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  // Answers with what is made of the vectors of `requests`.
  void Gather(const HttpRequest& request, std::vector<Request> requests, MakeAnswer make_answer,
              const std::shared_ptr<Exchange>& exchange);
  // Gives the requests of a call what they have of its HTTP request; false, and it is answered,
  // where the client has sent too much.
  bool Adopt(const HttpRequest& request, int64_t held_bytes, ErrorForm errors,
             std::vector<Request>* requests, Exchange& exchange) const;
  void AnswerText(const Route& route, const HttpRequest& request, Exchange& exchange) const;
  void Dispatch(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  // Of the engine and of the workers before it.
  EngineHealth WholeHealth() const;

  Engine& engine_;
  const ApiKeys keys_;
  const std::function<HttpState()> http_;
  const ModelFacts model_;
  const std::string fingerprint_;
  const int64_t started_;  // seconds since the epoch

  const std::unique_ptr<ResponseStore> responses_ = std::make_unique<ResponseStore>();
  RequestLog log_;
  TokenTotals tokens_;
  const std::shared_ptr<RunningAnswers> running_ = std::make_shared<RunningAnswers>();
};

}  // namespace sluice::server
