// Which path does what: two calls per request, for its header and for the whole. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/activity_log.h"
#include "server/api_keys.h"
#include "server/gathering.h"
#include "server/generation.h"
#include "server/http/http.h"
#include "server/live_requests.h"
#include "server/openai/batches_api.h"
#include "server/openai/embedding_api.h"
#include "server/openai/files_api.h"
#include "server/openai/response_store.h"
#include "server/profiles.h"
#include "server/request_log.h"
#include "server/running_answers.h"
#include "server/shared/api_call.h"
#include "server/shared/deadlines.h"
#include "server/shared/models.h"
#include "server/shared/resumable_streams.h"
#include "server/timelines.h"

namespace sluice::server {

struct EngineOrder;

// A worker that is at one request for longer than this is taken for a hang, as a text worker of the
// engine is: what a client can make it do is limited to a few seconds, and others wait behind it.
inline constexpr int64_t kWorkMsMax = 10'000;

// Paths behind which a name stands.
inline constexpr const char* kModelPrefix = "/v1/models/";
inline constexpr const char* kResponsePrefix = "/v1/responses/";
inline constexpr const char* kPagePrefix = "/web/";

// What the HTTP server is at.
struct HttpState {
  int64_t connections = 0;     // open ones
  int64_t oldest_work_ms = 0;  // HttpServer::OldestWorkMs
};

class Routes {
 public:
  // `http` is asked for /metrics and for health. `models` outlives this, and tells nobody anything
  // any more when this ends (Models::Close).
  Routes(Models& models, ApiKeys keys, std::function<HttpState()> http,
         RequestsLogged logged = RequestsLogged::kNone);

  // What refuses a request by its header (key, path, method), or nothing; then the request has its
  // key's salt.
  std::optional<HttpReply> Admit(HttpRequest* head);

  // Answers through the exchange, now or later. Never throws.
  // REQUIRES: the request was admitted.
  void Handle(HttpRequest request, std::shared_ptr<Exchange> exchange);

  // Counts and logs a request that is over.
  void Ended(const ExchangeRecord& record);
  // For requests that come from now on.
  void ReplaceKeys(ApiKeys keys);
  // Ends the streams that end with the server alone.
  void EndLiveStreams() { live_.End(); }
  const TokenTotals& tokens() const { return tokens_; }

 private:
  using ExchangeRef = std::shared_ptr<Exchange>;
  struct Route;
  static const Route kRoutes[];
  // The route of a path, of that method where it has several; null: none.
  static const Route* Find(const std::string& path, std::string_view method = {});
  static bool Names(const Route& route, const std::string& path);
  // Of a path that has no route: the one that a client's wrong base URL has hidden, or null; that
  // as part of a sentence, or nothing; and the form of errors of the paths beside it.
  static const Route* FindMeant(const std::string& path);
  static std::string WhatIsMeant(const std::string& path);
  static ErrorForm FormOfUnknown(const std::string& path);

  // For a client without the rights of an admin: "a profile takes".
  static HttpReply NoAdminReply(const char* what_takes);

  HttpReply ListModels(const HttpRequest& request) const;
  HttpReply FindModel(const HttpRequest& request) const;
  HttpReply ShowExperts(const HttpRequest& request) const;
  HttpReply MoveExperts(const HttpRequest& request) const;
  HttpReply OrderEngine(const HttpRequest& request) const;
  HttpReply OrderReply(const Result<EngineOrder>& order) const;
  HttpReply Health(const HttpRequest& request) const;
  HttpReply Live(const HttpRequest& request) const;
  HttpReply Ready(const HttpRequest& request) const;
  HttpReply Metrics(const HttpRequest& request) const;
  HttpReply Version(const HttpRequest& request) const;
  HttpReply Tokenizer(const HttpRequest& request) const;
  HttpReply LlamaProps(const HttpRequest& request) const;
  HttpReply LlamaSlots(const HttpRequest& request) const;
  HttpReply OllamaShow(const HttpRequest& request) const;
  HttpReply OllamaTags(const HttpRequest& request) const;
  HttpReply OllamaRunning(const HttpRequest& request) const;
  HttpReply OllamaVersion(const HttpRequest& request) const;
  HttpReply OpenApi(const HttpRequest& request) const;
  HttpReply Page(const HttpRequest& request) const;
  HttpReply Control(const HttpRequest& request) const;
  HttpReply ShowTimeline(const HttpRequest& request) const;
  HttpReply DeleteResponse(const HttpRequest& request) const;
  HttpReply CancelResponse(const HttpRequest& request) const;
  // A response of the key as it is now, running or stored.
  HttpReply ShowResponse(const std::string& key, const std::string& id) const;
  HttpReply CreateFile(const HttpRequest& request) const;
  HttpReply ListFiles(const HttpRequest& request) const;
  HttpReply FindFile(const HttpRequest& request) const;
  HttpReply DeleteFile(const HttpRequest& request) const;
  HttpReply CreateBatch(const HttpRequest& request) const;
  HttpReply ListBatches(const HttpRequest& request) const;
  HttpReply FindBatch(const HttpRequest& request) const;
  HttpReply CancelBatch(const HttpRequest& request) const;
  void OrderModel(const HttpRequest& request, const ExchangeRef& exchange);
  void Profile(const ModelUse& model, const HttpRequest& request, const ExchangeRef& exchange);
  void WatchRequests(const HttpRequest& request, const ExchangeRef& exchange);
  void Resume(const HttpRequest& request, const ExchangeRef& exchange);
  void FindResponse(const HttpRequest& request, const ExchangeRef& exchange);
  void Generate(const Route& route, const ModelUse& model, const HttpRequest& request,
                const ExchangeRef& exchange);
  void Decide(const ModelUse& model, const HttpRequest& request, const ExchangeRef& exchange);
  void FillGap(const ModelUse& model, const HttpRequest& request, const ExchangeRef& exchange);
  void Respond(const ModelUse& model, const HttpRequest& request, const ExchangeRef& exchange);
  // Gives a call that was read to the engine.
  void Start(const ModelUse& model, ApiCall call, const AnswerMaker& format,
             const HttpRequest& request, const ExchangeRef& exchange);
  void Embed(const ModelUse& model, const HttpRequest& request, const ExchangeRef& exchange);
  void OllamaEmbed(const ModelUse& model, const HttpRequest& request, const ExchangeRef& exchange);
  void OllamaEmbedOne(const ModelUse& model, const HttpRequest& request,
                      const ExchangeRef& exchange);
  void GatherForOllama(const ModelUse& model, const HttpRequest& request,
                       Result<EmbeddingCall> call,
                       std::string (*answer)(const EmbeddingCall&,
                                             const std::vector<std::vector<float>>&, const Usage&),
                       const ExchangeRef& exchange);
  void CohereEmbed(const ModelUse& model, const HttpRequest& request, const ExchangeRef& exchange);
  void Rerank(const ModelUse& model, const HttpRequest& request, const ExchangeRef& exchange);
  void CohereRerank(const ModelUse& model, const HttpRequest& request, const ExchangeRef& exchange);
  void Classify(const ModelUse& model, const HttpRequest& request, const ExchangeRef& exchange);
  void Score(const ModelUse& model, const HttpRequest& request, const ExchangeRef& exchange);
  // Answers with what is made of the vectors of `requests`.
  void Gather(const ModelUse& model, const HttpRequest& request, std::vector<Request> requests,
              MakeAnswer make_answer, const ExchangeRef& exchange, GatheringOptions options = {});
  // Gives the requests of a call what they have of its HTTP request; false, and it is answered,
  // where the client has sent too much.
  bool Adopt(const HttpRequest& request, int64_t held_bytes, ErrorForm errors,
             std::vector<Request>* requests, Exchange& exchange) const;
  void AnswerText(const Route& route, const ModelUse& model, const HttpRequest& request,
                  Exchange& exchange) const;
  // Handle, without its care for exceptions.
  void Dispatch(HttpRequest request, const ExchangeRef& exchange);
  // Of the model that the request names, once it is loaded.
  void DispatchToModel(const Route& route, HttpRequest request, const ExchangeRef& exchange);
  void Answer(const Route& route, const ModelUse& model, const HttpRequest& request,
              const ExchangeRef& exchange);
  // Of Ollama's way to unload a model, a call without a prompt; false: it is something else.
  bool LetGo(const Route& route, const std::string& name, const HttpRequest& request,
             Exchange& exchange);
  // Takes Ollama's keep_alive from those who may unload a model, where there are several.
  bool KeepAlive(const std::string& name, std::optional<double> seconds,
                 const HttpRequest& request);
  // Of the model that is asked for by this name, as Models::Resolve takes it.
  Result<ModelReport> ReportOf(const std::string& asked) const;
  // How the requests stand, for the page's live view.
  std::string ShowRequests(const Watcher& watcher) const;
  // Of the engines and of the workers before them.
  EngineHealth WholeHealth() const;
  // Those of now; they stay whole where they are replaced meanwhile.
  std::shared_ptr<const ApiKeys> Keys() const;

  Models& models_;
  mutable std::mutex keys_mutex_;
  std::shared_ptr<const ApiKeys> keys_;  // guarded by keys_mutex_
  const std::function<HttpState()> http_;
  const int64_t started_;  // seconds since the epoch

  const std::unique_ptr<ResponseStore> responses_ = std::make_unique<ResponseStore>();
  const std::unique_ptr<Timelines> timelines_ = std::make_unique<Timelines>();
  RequestLog log_;
  TokenTotals tokens_;
  Deadlines deadlines_;
  ResumableStreams resumable_{&deadlines_};
  LiveRequests live_{&deadlines_, [this](const Watcher& watcher) { return ShowRequests(watcher); }};
  const std::shared_ptr<RunningAnswers> running_ = std::make_shared<RunningAnswers>();
  const std::unique_ptr<Profiles> profiles_ = std::make_unique<Profiles>();
  const std::unique_ptr<FileStore> files_ = std::make_unique<FileStore>();
  // Its threads send requests to all that stands above.
  const std::unique_ptr<Batches> batches_ = std::make_unique<Batches>(
      files_.get(), [this](HttpRequest request, std::shared_ptr<Exchange> exchange) {
        Handle(std::move(request), std::move(exchange));
      });
};

}  // namespace sluice::server
