#include "server/routes.h"

#include <ctime>
#include <exception>

#include "base/clock.h"
#include "base/log.h"
#include "base/str_cat.h"
#include "server/anthropic_answer.h"
#include "server/decisions_api.h"
#include "server/embedding_api.h"
#include "server/errors.h"
#include "server/llama_answer.h"
#include "server/llama_api.h"
#include "server/ollama_answer.h"
#include "server/ollama_api.h"
#include "server/openai_answer.h"
#include "server/pages.h"
#include "server/rank_api.h"
#include "server/responses_answer.h"
#include "server/responses_api.h"
#include "server/text_api.h"
#include "server/web_files.h"

namespace sluice::server {
namespace {

constexpr const char* kModelPrefix = "/v1/models/";
constexpr const char* kResponsePrefix = "/v1/responses/";
constexpr const char* kPagePrefix = "/web/";
constexpr size_t kPathBytesShown = 128;
// The page runs its own scripts alone, talks to this server alone, and stands in no other page.
constexpr const char* kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

HttpReply JsonReply(const OrderedJson& json) {
  HttpReply reply;
  reply.body = DumpJson(json);
  return reply;
}

HttpReply BodyReply(Result<std::string> body, ErrorForm errors) {
  if (!body.ok()) return ErrorReply(body.status(), errors);
  HttpReply reply;
  reply.body = std::move(body).value();
  return reply;
}

std::string FingerprintOf(const EngineInfo& info) {
  std::string text = StrCat("sluice-", SLUICE_VERSION, "-", info.quantization, "-", info.isa);
  for (char& c : text) {
    if (c == ' ') c = '-';
  }
  return text;
}

std::string CounterText(const char* name, const char* help, int64_t value) {
  return StrCat("# HELP ", name, " ", help, "\n# TYPE ", name, " counter\n", name, " ", value,
                "\n");
}

// What the requests' prompts and choices take until their ids exist; with `echo` the texts are kept
// twice.
int64_t HeldBytes(const std::vector<Request>& requests, bool echo) {
  size_t bytes = 0;
  for (const Request& request : requests) {
    if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.prompt)) {
      bytes += ids->size() * sizeof(int32_t);
    } else if (const auto* chat = std::get_if<ChatPrompt>(&request.prompt)) {
      bytes +=
          chat->messages_json.size() + chat->tools_json.size() + chat->template_kwargs_json.size();
    } else {
      bytes += std::get<std::string>(request.prompt).size() * (echo ? 2 : 1);
    }
    bytes += request.second_text ? request.second_text->size() : 0;
    for (const std::string& text : request.choice) bytes += sizeof text + text.size();
  }
  return static_cast<int64_t>(bytes);
}

// %41 becomes A; anything else stays as it is.
std::string Unescaped(const std::string& path) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string text;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '%' && i + 2 < path.size() && digit(path[i + 1]) >= 0 &&
        digit(path[i + 2]) >= 0) {
      text += static_cast<char>(digit(path[i + 1]) * 16 + digit(path[i + 2]));
      i += 2;
    } else {
      text += path[i];
    }
  }
  return text;
}

HttpReply NoResponse(const std::string& id) {
  return ErrorReply(Status(StatusCode::kNotFound,
                           StrCat("there is no response \"", id.substr(0, kPathBytesShown),
                                  "\" of this key; it may have been too old"),
                           "response_id"));
}

OrderedJson ModelJson(const EngineInfo& info, int64_t created) {
  OrderedJson json;
  json["id"] = info.model_name;
  json["object"] = "model";
  json["created"] = created;
  json["owned_by"] = "sluice";
  json["max_model_len"] = info.max_model_len;
  json["meta"] = OrderedJson{{"architecture", info.architecture},
                             {"quantization", info.quantization},
                             {"n_params", info.parameters},
                             {"n_vocab", info.vocab_size},
                             {"size", info.weight_bytes}};
  return json;
}

template <class Format>
std::unique_ptr<AnswerFormat> Make(const ApiCall& call, AnswerHead head) {
  return std::make_unique<Format>(call, std::move(head));
}

}  // namespace

struct Routes::Route {
  const char* path;
  const char* method;
  bool open = false;  // asks for no key
  ErrorForm errors = ErrorForm::kOpenAi;
  // One of the following is there. Answers at once:
  HttpReply (Routes::*answer)(const HttpRequest&) const = nullptr;
  // works on a text:
  Result<std::string> (*text)(const Engine&, const ModelFacts&, std::string_view body,
                              const std::atomic<bool>& gone) = nullptr;
  // takes the exchange over:
  void (Routes::*begin)(const HttpRequest&, const std::shared_ptr<Exchange>&) = nullptr;
  // or reads a call and generates:
  Result<ApiCall> (*read)(std::string_view body, const ModelFacts&) = nullptr;
  std::unique_ptr<AnswerFormat> (*format)(const ApiCall&, AnswerHead) = nullptr;
};

const Routes::Route Routes::kRoutes[] = {
    {.path = "/v1/chat/completions",
     .method = "POST",
     .read = &ParseChatCall,
     .format = &Make<OpenAiAnswer>},
    {.path = "/v1/completions",
     .method = "POST",
     .read = &ParseCompletionCall,
     .format = &Make<OpenAiAnswer>},
    {.path = "/v1/chat/completions/control", .method = "POST", .answer = &Routes::Control},
    {.path = "/v1/messages",
     .method = "POST",
     .errors = ErrorForm::kAnthropic,
     .read = &ParseMessagesCall,
     .format = &Make<AnthropicAnswer>},
    {.path = "/v1/messages/count_tokens",
     .method = "POST",
     .errors = ErrorForm::kAnthropic,
     .text = &CountMessageTokens},
    {.path = "/v1/responses", .method = "POST", .begin = &Routes::Respond},
    {.path = kResponsePrefix, .method = "GET", .answer = &Routes::FindResponse},
    {.path = kResponsePrefix, .method = "DELETE", .answer = &Routes::DeleteResponse},
    {.path = "/v1/decisions", .method = "POST", .begin = &Routes::Decide},
    {.path = "/completion",
     .method = "POST",
     .read = &ParseLlamaCompletion,
     .format = &Make<LlamaAnswer>},
    {.path = "/completions",
     .method = "POST",
     .read = &ParseLlamaCompletion,
     .format = &Make<LlamaAnswer>},
    {.path = "/infill", .method = "POST", .begin = &Routes::FillGap},
    {.path = "/props", .method = "GET", .answer = &Routes::LlamaProps},
    {.path = "/slots", .method = "GET", .answer = &Routes::LlamaSlots},
    {.path = "/api/chat",
     .method = "POST",
     .errors = ErrorForm::kOllama,
     .read = &ParseOllamaChat,
     .format = &Make<OllamaAnswer>},
    {.path = "/api/generate",
     .method = "POST",
     .errors = ErrorForm::kOllama,
     .read = &ParseOllamaGenerate,
     .format = &Make<OllamaAnswer>},
    {.path = "/api/show", .method = "POST", .errors = ErrorForm::kOllama, .text = &OllamaShow},
    {.path = "/api/tags",
     .method = "GET",
     .errors = ErrorForm::kOllama,
     .answer = &Routes::OllamaTags},
    {.path = "/api/ps",
     .method = "GET",
     .errors = ErrorForm::kOllama,
     .answer = &Routes::OllamaRunning},
    {.path = "/api/version",
     .method = "GET",
     .errors = ErrorForm::kOllama,
     .answer = &Routes::OllamaVersion},
    {.path = "/v1/embeddings", .method = "POST", .begin = &Routes::Embed},
    {.path = "/v1/rerank", .method = "POST", .begin = &Routes::Rerank},
    {.path = "/v1/score", .method = "POST", .begin = &Routes::Score},
    {.path = "/v1/classify", .method = "POST", .begin = &Routes::Classify},
    {.path = "/v1/models", .method = "GET", .answer = &Routes::Models},
    {.path = kModelPrefix, .method = "GET", .answer = &Routes::Model},
    {.path = "/tokenize", .method = "POST", .text = &Tokenize},
    {.path = "/detokenize", .method = "POST", .text = &Detokenize},
    {.path = "/apply-template", .method = "POST", .text = &ApplyTemplate},
    {.path = "/health", .method = "GET", .open = true, .answer = &Routes::Health},
    {.path = "/live", .method = "GET", .open = true, .answer = &Routes::Live},
    {.path = "/ready", .method = "GET", .open = true, .answer = &Routes::Ready},
    {.path = "/metrics", .method = "GET", .answer = &Routes::Metrics},
    {.path = "/version", .method = "GET", .answer = &Routes::Version},
    {.path = "/openapi.json", .method = "GET", .answer = &Routes::OpenApi},
    {.path = "/", .method = "GET", .open = true, .answer = &Routes::Page},
    {.path = kPagePrefix, .method = "GET", .open = true, .answer = &Routes::Page},
};

// A prefix ends with a slash, as the page alone does beside it, and has more behind it.
bool Routes::Names(const Route& route, const std::string& path) {
  const std::string_view own = route.path;
  const bool prefix = own.size() > 1 && own.back() == '/';
  return prefix ? path.starts_with(own) && path.size() > own.size() : path == own;
}

const Routes::Route* Routes::Find(const std::string& path, std::string_view method) {
  const Route* found = nullptr;
  for (const Route& route : kRoutes) {
    if (Names(route, path) && (found == nullptr || method == route.method)) found = &route;
  }
  return found;
}

Routes::Routes(Engine& engine, ApiKeys keys, std::function<HttpState()> http, RequestsLogged logged)
    : engine_(engine),
      keys_(std::move(keys)),
      http_(std::move(http)),
      model_{engine.Info().model_name, engine.Info().vocab_size, engine.Info().labels},
      fingerprint_(FingerprintOf(engine.Info())),
      started_(std::time(nullptr)),
      log_(logged) {}

void Routes::Handle(HttpRequest request, std::shared_ptr<Exchange> exchange) {
  try {
    Dispatch(request, exchange);
  } catch (const std::exception& error) {
    // Memory ran out, or a library threw: this request fails, the server goes on.
    LogError(request.method, " failed: ", error.what());
    exchange->Reply(ErrorReply(Status(StatusCode::kInternal, "the server failed at this request")));
  }
}

std::optional<HttpReply> Routes::Admit(HttpRequest* head) {
  const Route* route = Find(head->path, head->method);
  const ErrorForm errors = route == nullptr ? ErrorForm::kOpenAi : route->errors;
  std::optional<std::string> salt = keys_.SaltOf(head->authorization, head->api_key);
  if (!salt && (route == nullptr || !route->open)) {
    return ErrorReply(
        Status(StatusCode::kUnauthenticated,
               "no or wrong API key; send the header Authorization: Bearer KEY or x-api-key: KEY"),
        errors);
  }
  if (route == nullptr) {
    return HttpErrorReply(404, StrCat("there is no path \"", head->path.substr(0, kPathBytesShown),
                                      "\"; this server has the model \"", model_.name,
                                      "\", and GET /openapi.json lists its paths"));
  }
  if (head->method != route->method) {
    std::string allowed;
    for (const Route& other : kRoutes) {
      if (Names(other, head->path)) allowed += StrCat(allowed.empty() ? "" : ", ", other.method);
    }
    HttpReply reply = HttpErrorReply(405, StrCat("this path takes ", allowed, " only"), errors);
    reply.headers.emplace_back("Allow", allowed);
    return reply;
  }
  head->key_salt = std::move(salt).value_or("");
  return std::nullopt;
}

void Routes::Dispatch(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  const Route* route = Find(request.path, request.method);
  if (route->answer != nullptr) {
    exchange->Reply((this->*route->answer)(request));
  } else if (route->text != nullptr) {
    AnswerText(*route, request, *exchange);
  } else if (route->begin != nullptr) {
    (this->*route->begin)(request, exchange);
  } else {
    Generate(*route, request, exchange);
  }
}

void Routes::AnswerText(const Route& route, const HttpRequest& request, Exchange& exchange) const {
  const auto gone = GoneFlag(exchange);
  if (*gone) return;  // while it waited for a worker
  exchange.Reply(BodyReply(route.text(engine_, model_, request.body, *gone), route.errors));
}

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
  for (Request& one : *requests) {
    one.held = request.lease;
    one.client = request.client;
    if (!request.key_salt.empty()) one.cache_salt = StrCat(request.key_salt, ":", one.cache_salt);
  }
  return true;
}

void Routes::Gather(const HttpRequest& request, std::vector<Request> requests,
                    MakeAnswer make_answer, const std::shared_ptr<Exchange>& exchange) {
  if (!Adopt(request, HeldBytes(requests, false), ErrorForm::kOpenAi, &requests, *exchange)) return;
  StartGathering(engine_, std::move(requests), std::move(make_answer), &tokens_, exchange);
}

void Routes::Embed(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  Result<EmbeddingCall> call = ParseEmbeddingCall(request.body, model_);
  if (!call.ok()) return exchange->Reply(ErrorReply(call.status()));
  std::vector<Request> requests = std::move(call->requests);
  Gather(
      request, std::move(requests),
      [call = *std::move(call)](const auto& vectors, const Usage& usage) {
        return EmbeddingAnswer(call, vectors, usage);
      },
      exchange);
}

void Routes::Rerank(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  Result<RankCall> call = ParseRerankCall(request.body, model_);
  if (!call.ok()) return exchange->Reply(ErrorReply(call.status()));
  std::vector<Request> requests = RequestsOf(*call);
  Gather(
      request, std::move(requests),
      [call = *std::move(call), id = request.request_id](const auto& vectors, const Usage& usage) {
        return RerankAnswer(call, ScoresOf(call, vectors), usage, id);
      },
      exchange);
}

void Routes::Score(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  Result<RankCall> call = ParseScoreCall(request.body, model_);
  if (!call.ok()) return exchange->Reply(ErrorReply(call.status()));
  std::vector<Request> requests = RequestsOf(*call);
  Gather(
      request, std::move(requests),
      [call = *std::move(call), id = request.request_id](const auto& vectors, const Usage& usage) {
        return ScoreAnswer(call, ScoresOf(call, vectors), usage, id, std::time(nullptr));
      },
      exchange);
}

void Routes::Classify(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  Result<RankCall> call = ParseClassifyCall(request.body, model_);
  if (!call.ok()) return exchange->Reply(ErrorReply(call.status()));
  std::vector<Request> requests = RequestsOf(*call);
  Gather(
      request, std::move(requests),
      [this, call = *std::move(call), id = request.request_id](const auto& vectors,
                                                               const Usage& usage) {
        return ClassifyAnswer(call, model_, vectors, usage, id, std::time(nullptr));
      },
      exchange);
}

void Routes::Generate(const Route& route, const HttpRequest& request,
                      const std::shared_ptr<Exchange>& exchange) {
  Result<ApiCall> call = route.read(request.body, model_);
  if (!call.ok()) {
    exchange->Reply(ErrorReply(call.status(), route.errors));
    return;
  }
  if (call->requests.empty()) {  // as Ollama's clients load a model
    HttpReply reply;
    reply.body = OllamaLoaded(*call);
    exchange->Reply(std::move(reply));
    return;
  }
  call->errors = route.errors;
  Start(std::move(call).value(), route.format, request, exchange);
}

void Routes::Decide(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  const auto gone = GoneFlag(*exchange);
  auto questions = ParseDecisions(request.body, model_);
  auto call = questions.ok() ? ScoreOptions(engine_, model_, *gone, &*questions)
                             : Result<ApiCall>(questions.status());
  if (!call.ok()) {
    exchange->Reply(ErrorReply(call.status()));
    return;
  }
  Start(
      std::move(call).value(),
      [&](const ApiCall& kept, AnswerHead) {
        return std::make_unique<DecisionsAnswer>(kept, std::move(questions).value());
      },
      request, exchange);
}

void Routes::FillGap(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  const auto gone = GoneFlag(*exchange);
  Infill infill;
  Result<ApiCall> call = ParseInfill(request.body, model_, &infill);
  const Status status =
      call.ok() ? FillPrompt(engine_, infill, *gone, &call->requests.front()) : call.status();
  if (!status.ok()) {
    exchange->Reply(ErrorReply(status));
    return;
  }
  Start(std::move(call).value(), &Make<LlamaAnswer>, request, exchange);
}

void Routes::Respond(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  Result<ResponsesCall> asked = ParseResponsesCall(
      request.body, model_,
      [&](const std::string& id) { return responses_->Find(request.key_salt, id, NowMicros()); });
  if (!asked.ok()) {
    exchange->Reply(ErrorReply(asked.status()));
    return;
  }
  asked->held = request.lease;
  ApiCall call = std::move(asked->call);
  Start(
      std::move(call),
      [&](const ApiCall& kept, AnswerHead head) {
        return std::make_unique<ResponsesAnswer>(kept, std::move(head), std::move(asked).value(),
                                                 request.key_salt, responses_.get());
      },
      request, exchange);
}

void Routes::Start(ApiCall call, const AnswerMaker& format, const HttpRequest& request,
                   const std::shared_ptr<Exchange>& exchange) {
  if (!Adopt(request, HeldBytes(call.requests, call.echo), call.errors, &call.requests,
             *exchange)) {
    return;
  }
  AnswerHead head{request.request_id, std::time(nullptr), fingerprint_, {}};
  StartGeneration(engine_, std::move(call), std::move(head), format, request.key_salt, &tokens_,
                  running_, exchange);
}

void Routes::Ended(const ExchangeRecord& record) {
  const Route* route = Find(record.path);
  log_.Add(record, route == nullptr ? "other" : route->path);
}

HttpReply Routes::Models(const HttpRequest&) const {
  OrderedJson json;
  json["object"] = "list";
  json["data"] = OrderedJson::array({ModelJson(engine_.Info(), started_)});
  return JsonReply(json);
}

HttpReply Routes::Model(const HttpRequest& request) const {
  const std::string name = Unescaped(request.path.substr(std::string_view(kModelPrefix).size()));
  if (name == model_.name) return JsonReply(ModelJson(engine_.Info(), started_));
  return ErrorReply(Status(StatusCode::kNotFound,
                           StrCat("the model \"", name.substr(0, 128),
                                  "\" is not served here; this server has \"", model_.name, "\""),
                           "model"));
}

HttpReply Routes::FindResponse(const HttpRequest& request) const {
  const std::string id = request.path.substr(std::string_view(kResponsePrefix).size());
  const auto stored = responses_->Find(request.key_salt, id, NowMicros());
  if (stored == nullptr) return NoResponse(id);
  HttpReply reply;
  reply.body = stored->body;
  return reply;
}

HttpReply Routes::DeleteResponse(const HttpRequest& request) const {
  const std::string id = request.path.substr(std::string_view(kResponsePrefix).size());
  if (!responses_->Remove(request.key_salt, id, NowMicros())) return NoResponse(id);
  return JsonReply(OrderedJson{{"id", id}, {"object", "response"}, {"deleted", true}});
}

EngineHealth Routes::WholeHealth() const {
  EngineHealth health = engine_.Health();
  const int64_t working_ms = http_().oldest_work_ms;
  if (!health.ok || working_ms <= kWorkMsMax) return health;
  return {.reason = StrCat("an HTTP worker has been at one request for ", working_ms / 1000,
                           " s; others may wait behind it")};
}

HttpReply Routes::Health(const HttpRequest&) const {
  const EngineHealth health = WholeHealth();
  if (!health.ok) return ErrorReply(Status(StatusCode::kUnavailable, health.reason));
  return JsonReply(OrderedJson{{"status", "ok"}});
}

HttpReply Routes::Live(const HttpRequest&) const { return JsonReply({{"status", "ok"}}); }

HttpReply Routes::Ready(const HttpRequest&) const {
  const EngineHealth health = WholeHealth();
  if (!health.ready) return ErrorReply(Status(StatusCode::kUnavailable, health.reason));
  return JsonReply(OrderedJson{{"status", "ok"}});
}

HttpReply Routes::Metrics(const HttpRequest&) const {
  HttpReply reply;
  reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
  reply.body = engine_.Metrics();
  reply.body += StrCat("# HELP sluice_http_connections Open connections\n",
                       "# TYPE sluice_http_connections gauge\nsluice_http_connections ",
                       http_().connections, "\n");
  reply.body +=
      CounterText("sluice_generated_tokens_total",
                  "Tokens of answers so far, those that still run included", tokens_.generated);
  reply.body += CounterText("sluice_prefilled_tokens_total",
                            "Prompt tokens of ended requests that were computed", tokens_.prompt);
  reply.body += log_.Metrics();
  return reply;
}

HttpReply Routes::Version(const HttpRequest&) const {
  return JsonReply(OrderedJson{{"name", "sluice"},
                               {"version", SLUICE_VERSION},
                               {"commit", SLUICE_COMMIT},
                               {"compiler", SLUICE_COMPILER},
                               {"backends", engine_.Info().backends}});
}

HttpReply Routes::LlamaProps(const HttpRequest&) const {
  return JsonReply(server::LlamaProps(engine_.Info()));
}

HttpReply Routes::LlamaSlots(const HttpRequest&) const {
  return JsonReply(server::LlamaSlots(engine_.Info()));
}

HttpReply Routes::OllamaTags(const HttpRequest&) const {
  return JsonReply(server::OllamaTags(engine_.Info(), started_));
}

HttpReply Routes::OllamaRunning(const HttpRequest&) const {
  return JsonReply(server::OllamaRunning(engine_.Info()));
}

HttpReply Routes::OllamaVersion(const HttpRequest&) const {
  return JsonReply(OrderedJson{{"version", SLUICE_VERSION}});
}

HttpReply Routes::OpenApi(const HttpRequest&) const {
  HttpReply reply;
  reply.body = OpenApiDocument();
  return reply;
}

HttpReply Routes::Control(const HttpRequest& request) const {
  return BodyReply(running_->Control(request.key_salt, request.body), ErrorForm::kOpenAi);
}

HttpReply Routes::Page(const HttpRequest& request) const {
  const WebFile* file = FindWebFile(request.path);
  if (file == nullptr) {
    return HttpErrorReply(
        404, StrCat("the page has no file \"", request.path.substr(0, kPathBytesShown), "\""));
  }
  HttpReply reply;
  reply.content_type = file->content_type;
  reply.headers.emplace_back("Content-Security-Policy", kPagePolicy);
  reply.headers.emplace_back("Cache-Control", "no-cache");
  reply.headers.emplace_back("X-Content-Type-Options", "nosniff");
  reply.headers.emplace_back("Referrer-Policy", "no-referrer");
  reply.body = file->bytes;
  return reply;
}

}  // namespace sluice::server
