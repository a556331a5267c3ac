#include "server/routes.h"

#include <ctime>
#include <exception>

#include "base/log.h"
#include "base/str_cat.h"
#include "server/embedding_api.h"
#include "server/errors.h"
#include "server/generation.h"
#include "server/pages.h"
#include "server/rank_api.h"
#include "server/text_api.h"
#include "server/web_files.h"

namespace sluice::server {
namespace {

constexpr const char* kModelPrefix = "/v1/models/";
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

HttpReply BodyReply(Result<std::string> body) {
  if (!body.ok()) return ErrorReply(body.status());
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

}  // namespace

struct Routes::Route {
  const char* path;
  const char* method;
  bool open;                                              // asks for no key
  HttpReply (Routes::*answer)(const HttpRequest&) const;  // or null
  // Null as well as `answer`: asks the model, by `ask`.
  Result<std::string> (*text)(const Engine&, const ModelFacts&, std::string_view body,
                              const std::atomic<bool>& gone) = nullptr;
  void (Routes::*ask)(const HttpRequest&, const std::shared_ptr<Exchange>&) = &Routes::Generate;
};

const Routes::Route Routes::kRoutes[] = {
    {"/v1/chat/completions", "POST", false, nullptr},
    {"/v1/completions", "POST", false, nullptr},
    {"/v1/embeddings", "POST", false, nullptr, nullptr, &Routes::Embed},
    {"/v1/rerank", "POST", false, nullptr, nullptr, &Routes::Rerank},
    {"/v1/score", "POST", false, nullptr, nullptr, &Routes::Score},
    {"/v1/classify", "POST", false, nullptr, nullptr, &Routes::Classify},
    {"/v1/chat/completions/control", "POST", false, &Routes::Control},
    {"/v1/models", "GET", false, &Routes::Models},
    {kModelPrefix, "GET", false, &Routes::Model},
    {"/tokenize", "POST", false, nullptr, &Tokenize},
    {"/detokenize", "POST", false, nullptr, &Detokenize},
    {"/apply-template", "POST", false, nullptr, &ApplyTemplate},
    {"/health", "GET", true, &Routes::Health},
    {"/live", "GET", true, &Routes::Live},
    {"/ready", "GET", true, &Routes::Ready},
    {"/metrics", "GET", false, &Routes::Metrics},
    {"/version", "GET", false, &Routes::Version},
    {"/openapi.json", "GET", false, &Routes::OpenApi},
    {"/", "GET", true, &Routes::Page},
    {kPagePrefix, "GET", true, &Routes::Page},
};

const Routes::Route* Routes::Find(const std::string& path) {
  for (const Route& route : kRoutes) {
    const bool prefix = route.path == kModelPrefix || route.path == kPagePrefix;
    if (prefix ? path.starts_with(route.path) && path.size() > std::string_view(route.path).size()
               : path == route.path) {
      return &route;
    }
  }
  return nullptr;
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
  const Route* route = Find(head->path);
  std::optional<std::string> salt = keys_.SaltOf(head->authorization, head->api_key);
  if (!salt && (route == nullptr || !route->open)) {
    return ErrorReply(Status(StatusCode::kUnauthenticated,
                             "no or wrong API key; send the header Authorization: Bearer KEY"));
  }
  if (route == nullptr) {
    return HttpErrorReply(404, StrCat("there is no path \"", head->path.substr(0, kPathBytesShown),
                                      "\"; this server has the model \"", model_.name,
                                      "\", and GET /openapi.json lists its paths"));
  }
  if (head->method != route->method) {
    HttpReply reply = HttpErrorReply(405, StrCat("this path takes ", route->method, " only"));
    reply.headers.emplace_back("Allow", route->method);
    return reply;
  }
  head->key_salt = std::move(salt).value_or("");
  return std::nullopt;
}

void Routes::Dispatch(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  const Route* route = Find(request.path);
  if (route->answer != nullptr) {
    exchange->Reply((this->*route->answer)(request));
  } else if (route->text != nullptr) {
    AnswerText(*route, request, *exchange);
  } else {
    (this->*(route->ask))(request, exchange);
  }
}

void Routes::AnswerText(const Route& route, const HttpRequest& request, Exchange& exchange) const {
  const auto gone = GoneFlag(exchange);
  if (*gone) return;  // while it waited for a worker
  exchange.Reply(BodyReply(route.text(engine_, model_, request.body, *gone)));
}

bool Routes::Adopt(const HttpRequest& request, int64_t held_bytes, std::vector<Request>* requests,
                   Exchange& exchange) const {
  if (request.lease != nullptr && !request.lease->Resize(held_bytes)) {
    exchange.Reply(HttpErrorReply(
        429,
        "the requests that this client has sent hold its share of the memory; try again when "
        "some are answered"));
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
  if (!Adopt(request, HeldBytes(requests, false), &requests, *exchange)) return;
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

void Routes::Generate(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  const bool chat = request.path == "/v1/chat/completions";
  Result<ApiCall> call =
      chat ? ParseChatCall(request.body, model_) : ParseCompletionCall(request.body, model_);
  if (!call.ok()) {
    exchange->Reply(ErrorReply(call.status()));
    return;
  }
  if (!Adopt(request, HeldBytes(call->requests, call->echo), &call->requests, *exchange)) return;
  StartGeneration(engine_, std::move(call).value(), {request.request_id, request.key_salt},
                  fingerprint_, &tokens_, running_, exchange);
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

HttpReply Routes::OpenApi(const HttpRequest&) const {
  HttpReply reply;
  reply.body = OpenApiDocument();
  return reply;
}

HttpReply Routes::Control(const HttpRequest& request) const {
  return BodyReply(running_->Control(request.key_salt, request.body));
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
