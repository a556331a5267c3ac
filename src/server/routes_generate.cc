// What the routes do that submit requests to the engine.
#include <ctime>

#include "base/clock.h"
#include "base/parse_number.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "server/http/errors.h"
#include "server/llama/llama_answer.h"
#include "server/llama/llama_api.h"
#include "server/ollama/ollama_api.h"
#include "server/openai/decisions_api.h"
#include "server/openai/embedding_api.h"
#include "server/openai/rank_api.h"
#include "server/openai/responses_answer.h"
#include "server/openai/responses_api.h"
#include "server/request_texts.h"
#include "server/routes.h"

namespace sluice::server {
namespace {

int64_t TextBytesOf(const std::vector<Request>& requests, bool echo) {
  int64_t bytes = 0;
  for (const Request& request : requests) bytes += TextBytes(request, echo);
  return bytes;
}

// That of the header, where the body has none.
Status TakeTimeout(const HttpRequest& request, std::optional<double>* seconds) {
  if (*seconds || request.timeout.empty()) return OkStatus();
  const std::string& text = request.timeout;
  const std::optional<double> read = ParseNumber<double>(text);
  if (!read || !(*read > 0 && *read <= kTimeoutSecondsMax)) {
    return InvalidArgument(
        StrCat("the header x-request-timeout is ", Quote(text), "; it must be above 0 and at most ",
               kTimeoutSecondsMax, " seconds"),
        "x-request-timeout");
  }
  *seconds = read;
  return OkStatus();
}

// Whether the prompts of a request may ever find places in the queue together.
Status CheckPlaces(const Engine& engine, size_t prompts) {
  if (prompts < 2) return OkStatus();
  const int places = engine.Info().max_queue;
  if (prompts <= static_cast<size_t>(places)) return OkStatus();
  return InvalidArgument(
      StrCat("prompt has ", prompts, " prompts, and the queue of this server takes ", places,
             " (--max-queue); send the rest in another request"),
      "prompt");
}

// Keeps what refuses a call before it begins; what comes of one that has begun is for others.
class KeptReply : public Exchange {
 public:
  void Reply(HttpReply reply) override {
    std::lock_guard lock(mutex_);
    reply_ = std::move(reply);
  }
  void StreamType(const char*) override {}
  bool Stream(std::string_view) override { return false; }
  void EndStream(bool) override {}
  void Note(std::string, OrderedJson) override {}
  void OnDisconnect(std::function<void()>) override {}

  std::optional<HttpReply> Take() {
    std::lock_guard lock(mutex_);
    return std::exchange(reply_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::optional<HttpReply> reply_;  // guarded by mutex_
};

// The engine as who keeps it keeps the use.
std::shared_ptr<Engine> EngineOf(const ModelUse& model) { return {model, &model->engine}; }

}  // namespace

bool Routes::Adopt(const HttpRequest& request, int64_t held_bytes, ErrorForm errors,
                   std::vector<Request>* requests, Exchange& exchange) const {
  if (request.lease != nullptr && !request.lease->Resize(held_bytes)) {
    exchange.Reply(HttpErrorReply(
        429,
        "the requests that this client has sent hold its share of the memory; try again when "
        "some are answered",
        errors));
    return false;
  }
  timelines_->Follow(request.key_salt, request.request_id, NowMicros(), requests);
  for (Request& one : *requests) {
    one.held = request.lease;
    one.client = request.client;
    one.client_weight = request.key_weight;
    if (!request.key_salt.empty()) one.cache_salt = StrCat(request.key_salt, ":", one.cache_salt);
  }
  return true;
}

void Routes::Gather(const ModelUse& model, const HttpRequest& request,
                    std::vector<Request> requests, MakeAnswer make_answer,
                    const ExchangeRef& exchange, GatheringOptions options) {
  if (Status status = TakeTimeout(request, &options.timeout_s); !status.ok()) {
    return exchange->Reply(ErrorReply(status, options.errors));
  }
  if (!Adopt(request, TextBytesOf(requests, false), options.errors, &requests, *exchange)) return;
  StartGathering(EngineOf(model), std::move(requests), std::move(make_answer), options, &tokens_,
                 &deadlines_, exchange);
}

void Routes::Embed(const ModelUse& model, const HttpRequest& request, const ExchangeRef& exchange) {
  Result<EmbeddingCall> call = ParseEmbeddingCall(request.body, model->facts);
  if (!call.ok()) return exchange->Reply(ErrorReply(call.status()));
  std::vector<Request> requests = std::move(call->requests);
  const std::optional<double> timeout_s = call->timeout_s;
  Gather(model, request, std::move(requests),
         [call = *std::move(call)](const auto& vectors, const Usage& usage) {
           return EmbeddingAnswer(call, vectors, usage);
         },
         exchange, {.timeout_s = timeout_s});
}

void Routes::OllamaEmbed(const ModelUse& model, const HttpRequest& request,
                         const ExchangeRef& exchange) {
  GatherForOllama(model, request, ParseOllamaEmbed(request.body, model->facts), &OllamaEmbedAnswer,
                  exchange);
}

void Routes::OllamaEmbedOne(const ModelUse& model, const HttpRequest& request,
                            const ExchangeRef& exchange) {
  GatherForOllama(model, request, ParseOllamaEmbedOne(request.body, model->facts),
                  &OllamaEmbedOneAnswer, exchange);
}

void Routes::GatherForOllama(const ModelUse& model, const HttpRequest& request,
                             Result<EmbeddingCall> call,
                             std::string (*answer)(const EmbeddingCall&,
                                                   const std::vector<std::vector<float>>&,
                                                   const Usage&),
                             const ExchangeRef& exchange) {
  if (!call.ok()) return exchange->Reply(ErrorReply(call.status(), ErrorForm::kOllama));
  std::vector<Request> requests = std::move(call->requests);
  KeepAlive(model->facts.name, call->keep_alive_s, request);
  if (requests.empty()) return exchange->Reply(BodyReply(answer(*call, {}, {})));
  Gather(model, request, std::move(requests),
         [call = *std::move(call), answer](const auto& vectors, const Usage& usage) {
           return answer(call, vectors, usage);
         },
         exchange, {.errors = ErrorForm::kOllama});
}

void Routes::CohereEmbed(const ModelUse& model, const HttpRequest& request,
                         const ExchangeRef& exchange) {
  Result<CohereEmbedCall> call = ParseCohereEmbed(request.body, model->facts);
  if (!call.ok()) return exchange->Reply(ErrorReply(call.status(), ErrorForm::kCohere));
  std::vector<Request> requests = std::move(call->requests);
  Gather(
      model, request, std::move(requests),
      [call = *std::move(call), id = request.request_id](const auto& vectors, const Usage& usage) {
        return CohereEmbedAnswer(call, vectors, usage, id);
      },
      exchange, {.errors = ErrorForm::kCohere});
}

void Routes::Rerank(const ModelUse& model, const HttpRequest& request,
                    const ExchangeRef& exchange) {
  Result<RankCall> call = ParseRerankCall(request.body, model->facts);
  if (!call.ok()) return exchange->Reply(ErrorReply(call.status()));
  std::vector<Request> requests = RequestsOf(*call);
  Gather(
      model, request, std::move(requests),
      [call = *std::move(call), id = request.request_id](const auto& vectors, const Usage& usage) {
        return RerankAnswer(call, ScoresOf(call, vectors), usage, id);
      },
      exchange);
}

void Routes::CohereRerank(const ModelUse& model, const HttpRequest& request,
                          const ExchangeRef& exchange) {
  Result<RankCall> call = ParseCohereRerank(request.body, model->facts);
  if (!call.ok()) return exchange->Reply(ErrorReply(call.status(), ErrorForm::kCohere));
  std::vector<Request> requests = RequestsOf(*call);
  Gather(
      model, request, std::move(requests),
      [call = *std::move(call), id = request.request_id](const auto& vectors, const Usage& usage) {
        return CohereAnswer(call, ScoresOf(call, vectors), usage, id);
      },
      exchange, {.errors = ErrorForm::kCohere});
}

void Routes::Score(const ModelUse& model, const HttpRequest& request, const ExchangeRef& exchange) {
  Result<RankCall> call = ParseScoreCall(request.body, model->facts);
  if (!call.ok()) return exchange->Reply(ErrorReply(call.status()));
  std::vector<Request> requests = RequestsOf(*call);
  Gather(
      model, request, std::move(requests),
      [call = *std::move(call), id = request.request_id](const auto& vectors, const Usage& usage) {
        return ScoreAnswer(call, ScoresOf(call, vectors), usage, id, std::time(nullptr));
      },
      exchange);
}

void Routes::Classify(const ModelUse& model, const HttpRequest& request,
                      const ExchangeRef& exchange) {
  Result<RankCall> call = ParseClassifyCall(request.body, model->facts);
  if (!call.ok()) return exchange->Reply(ErrorReply(call.status()));
  std::vector<Request> requests = RequestsOf(*call);
  Gather(
      model, request, std::move(requests),
      [model, call = *std::move(call), id = request.request_id](const auto& vectors,
                                                                const Usage& usage) {
        return ClassifyAnswer(call, model->facts, vectors, usage, id, std::time(nullptr));
      },
      exchange);
}

void Routes::Decide(const ModelUse& model, const HttpRequest& request,
                    const ExchangeRef& exchange) {
  const auto gone = GoneFlag(*exchange);
  auto questions = ParseDecisions(request.body, model->facts);
  auto call = questions.ok() ? ScoreOptions(model->engine, model->facts, *gone, &*questions)
                             : Result<ApiCall>(questions.status());
  if (!call.ok()) {
    exchange->Reply(ErrorReply(call.status()));
    return;
  }
  Start(
      model, std::move(call).value(),
      [&](const ApiCall& kept, AnswerHead) {
        return std::make_unique<DecisionsAnswer>(kept, std::move(questions).value());
      },
      request, exchange);
}

void Routes::FillGap(const ModelUse& model, const HttpRequest& request,
                     const ExchangeRef& exchange) {
  const auto gone = GoneFlag(*exchange);
  Infill infill;
  Result<ApiCall> call = ParseInfill(request.body, model->facts, &infill);
  const Status status =
      call.ok() ? FillPrompt(model->engine, infill, *gone, &call->requests.front()) : call.status();
  if (!status.ok()) {
    exchange->Reply(ErrorReply(status));
    return;
  }
  Start(model, std::move(call).value(), &MakeFormat<LlamaAnswer>, request, exchange);
}

void Routes::Resume(const HttpRequest& request, const ExchangeRef& exchange) {
  resumable_.Resume(request.key_salt, request.last_event_id, exchange);
}

void Routes::Respond(const ModelUse& model, const HttpRequest& request,
                     const ExchangeRef& exchange) {
  Result<ResponsesCall> asked = ParseResponsesCall(
      request.body, model->facts,
      [&](const std::string& id) { return responses_->Find(request.key_salt, id, NowMicros()); });
  if (!asked.ok()) {
    exchange->Reply(ErrorReply(asked.status()));
    return;
  }
  asked->held = request.lease;
  asked->call.stream_id = DrawPrivateId("resp_");
  ApiCall call = std::move(asked->call);
  Start(
      model, std::move(call),
      [&](const ApiCall& kept, AnswerHead head) {
        return std::make_unique<ResponsesAnswer>(kept, std::move(head), std::move(asked).value(),
                                                 request.key_salt, responses_.get());
      },
      request, exchange);
}

void Routes::Start(const ModelUse& model, ApiCall call, const AnswerMaker& format,
                   const HttpRequest& request, const ExchangeRef& exchange) {
  if (!Adopt(request, TextBytesOf(call.requests, call.echo), call.errors, &call.requests,
             *exchange)) {
    return;
  }
  if (Status status = TakeTimeout(request, &call.timeout_s); !status.ok()) {
    return exchange->Reply(ErrorReply(status, call.errors));
  }
  if (Status status = CheckPlaces(model->engine, call.requests.size()); !status.ok()) {
    return exchange->Reply(ErrorReply(status, call.errors));
  }
  AnswerHead head{request.request_id, std::time(nullptr), model->fingerprint, {}};
  const std::string stream_id = call.stream_id;
  std::shared_ptr<Exchange> reader = exchange;
  std::shared_ptr<KeptReply> kept;  // for a client that does not wait for the answer
  if (call.background && !call.stream) reader = kept = std::make_shared<KeptReply>();
  if (call.resume_s || call.background) {
    auto opened = resumable_.Open(
        request.key_salt, {call.resume_s.value_or(ResumableStreams::kSecondsMax), call.background},
        reader, stream_id);
    if (!opened.ok()) return exchange->Reply(ErrorReply(opened.status(), call.errors));
    reader = *std::move(opened);
  }
  call.stream = call.stream || call.background;
  StartGeneration(EngineOf(model), std::move(call), std::move(head), format, request.key_salt,
                  &tokens_, running_, &deadlines_, reader);
  if (kept == nullptr) return;
  auto refused = kept->Take();
  exchange->Reply(refused ? *std::move(refused) : ShowResponse(request.key_salt, stream_id));
}

}  // namespace sluice::server
