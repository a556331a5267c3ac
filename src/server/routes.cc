#include "server/routes.h"

#include <ctime>
#include <exception>

#include "base/log.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "server/anthropic/anthropic_answer.h"
#include "server/http/errors.h"
#include "server/llama/llama_answer.h"
#include "server/llama/llama_api.h"
#include "server/models_api.h"
#include "server/ollama/ollama_answer.h"
#include "server/ollama/ollama_api.h"
#include "server/openai/openai_answer.h"
#include "server/openai/text_api.h"

namespace sluice::server {
namespace {

// Runs `work`; where memory runs out or a library throws, this request fails and the server goes
// on.
template <class Work>
void Guarded(const std::string& method, Exchange& exchange, Work&& work) {
  try {
    work();
  } catch (const std::exception& error) {
    LogError(method, " failed: ", error.what());
    exchange.Reply(ErrorReply(Status(StatusCode::kInternal, "the server failed at this request")));
  }
}

// To a client, whose request is not at fault for what the server's files or options are.
Status LoadFailure(const Status& status) {
  switch (status.code()) {
    case StatusCode::kUnavailable:
    case StatusCode::kOutOfMemory:
    case StatusCode::kResourceExhausted:
    case StatusCode::kFailedPrecondition:
      return Status(status.code(), status.message(), "model");
    default:
      return Status(StatusCode::kInternal,
                    StrCat("the model could not be loaded: ", status.message()));
  }
}

}  // namespace

struct Routes::Route {
  const char* path;
  const char* method;
  bool open = false;  // asks for no key
  ErrorForm errors = ErrorForm::kOpenAi;
  // One of the following is there. Answers at once:
  HttpReply (Routes::*answer)(const HttpRequest&) const = nullptr;
  // takes the exchange over:
  void (Routes::*begin)(const HttpRequest&, const ExchangeRef&) = nullptr;
  // does so with the model that the body names:
  void (Routes::*ask)(const ModelUse&, const HttpRequest&, const ExchangeRef&) = nullptr;
  // has that model work on a text:
  Result<std::string> (*text)(const Engine&, const ModelFacts&, std::string_view body,
                              const std::atomic<bool>& gone) = nullptr;
  // or reads a call of it and generates:
  Result<ApiCall> (*read)(std::string_view body, const ModelFacts&) = nullptr;
  std::unique_ptr<AnswerFormat> (*format)(const ApiCall&, AnswerHead) = nullptr;
};

const Routes::Route Routes::kRoutes[] = {
    {.path = "/v1/chat/completions",
     .method = "POST",
     .read = &ParseChatCall,
     .format = &MakeFormat<OpenAiAnswer>},
    {.path = "/v1/completions",
     .method = "POST",
     .read = &ParseCompletionCall,
     .format = &MakeFormat<OpenAiAnswer>},
    {.path = "/v1/chat/completions/control", .method = "POST", .answer = &Routes::Control},
    {.path = "/v1/messages",
     .method = "POST",
     .errors = ErrorForm::kAnthropic,
     .read = &ParseMessagesCall,
     .format = &MakeFormat<AnthropicAnswer>},
    {.path = "/v1/messages/count_tokens",
     .method = "POST",
     .errors = ErrorForm::kAnthropic,
     .text = &CountMessageTokens},
    {.path = "/v1/streams", .method = "GET", .begin = &Routes::Resume},
    {.path = "/v1/responses", .method = "POST", .ask = &Routes::Respond},
    {.path = kResponsePrefix, .method = "GET", .begin = &Routes::FindResponse},
    {.path = kResponsePrefix, .method = "DELETE", .answer = &Routes::DeleteResponse},
    {.path = kResponsePrefix, .method = "POST", .answer = &Routes::CancelResponse},
    {.path = kTimelinePrefix, .method = "GET", .answer = &Routes::ShowTimeline},
    {.path = kLivePath, .method = "GET", .begin = &Routes::WatchRequests},
    {.path = "/v1/decisions", .method = "POST", .ask = &Routes::Decide},
    {.path = "/completion",
     .method = "POST",
     .read = &ParseLlamaCompletion,
     .format = &MakeFormat<LlamaAnswer>},
    {.path = "/completions",
     .method = "POST",
     .read = &ParseLlamaCompletion,
     .format = &MakeFormat<LlamaAnswer>},
    {.path = "/infill", .method = "POST", .ask = &Routes::FillGap},
    {.path = "/props", .method = "GET", .answer = &Routes::LlamaProps},
    {.path = "/slots", .method = "GET", .answer = &Routes::LlamaSlots},
    {.path = "/api/chat",
     .method = "POST",
     .errors = ErrorForm::kOllama,
     .read = &ParseOllamaChat,
     .format = &MakeFormat<OllamaAnswer>},
    {.path = "/api/generate",
     .method = "POST",
     .errors = ErrorForm::kOllama,
     .read = &ParseOllamaGenerate,
     .format = &MakeFormat<OllamaAnswer>},
    {.path = "/api/embed",
     .method = "POST",
     .errors = ErrorForm::kOllama,
     .ask = &Routes::OllamaEmbed},
    {.path = "/api/embeddings",
     .method = "POST",
     .errors = ErrorForm::kOllama,
     .ask = &Routes::OllamaEmbedOne},
    {.path = "/api/show",
     .method = "POST",
     .errors = ErrorForm::kOllama,
     .answer = &Routes::OllamaShow},
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
    {.path = "/v1/embeddings", .method = "POST", .ask = &Routes::Embed},
    {.path = "/v2/embed",
     .method = "POST",
     .errors = ErrorForm::kCohere,
     .ask = &Routes::CohereEmbed},
    {.path = "/v1/rerank", .method = "POST", .ask = &Routes::Rerank},
    {.path = "/rerank", .method = "POST", .ask = &Routes::Rerank},
    {.path = "/v1/reranking", .method = "POST", .ask = &Routes::Rerank},
    {.path = "/reranking", .method = "POST", .ask = &Routes::Rerank},
    {.path = "/v2/rerank",
     .method = "POST",
     .errors = ErrorForm::kCohere,
     .ask = &Routes::CohereRerank},
    {.path = "/v1/score", .method = "POST", .ask = &Routes::Score},
    {.path = "/v1/classify", .method = "POST", .ask = &Routes::Classify},
    {.path = "/v1/files", .method = "POST", .answer = &Routes::CreateFile},
    {.path = "/v1/files", .method = "GET", .answer = &Routes::ListFiles},
    {.path = kFilePrefix, .method = "GET", .answer = &Routes::FindFile},
    {.path = kFilePrefix, .method = "DELETE", .answer = &Routes::DeleteFile},
    {.path = "/v1/batches", .method = "POST", .answer = &Routes::CreateBatch},
    {.path = "/v1/batches", .method = "GET", .answer = &Routes::ListBatches},
    {.path = kBatchPrefix, .method = "GET", .answer = &Routes::FindBatch},
    {.path = kBatchPrefix, .method = "POST", .answer = &Routes::CancelBatch},
    {.path = "/v1/models", .method = "GET", .answer = &Routes::ListModels},
    {.path = kModelPrefix, .method = "GET", .answer = &Routes::FindModel},
    {.path = kModelPrefix, .method = "POST", .begin = &Routes::OrderModel},
    {.path = "/admin/experts", .method = "GET", .answer = &Routes::ShowExperts},
    {.path = "/admin/experts", .method = "POST", .answer = &Routes::MoveExperts},
    {.path = "/models", .method = "GET", .answer = &Routes::ListModels},
    {.path = "/models/load", .method = "POST", .begin = &Routes::OrderModel},
    {.path = "/models/unload", .method = "POST", .begin = &Routes::OrderModel},
    {.path = "/admin/profile", .method = "POST", .ask = &Routes::Profile},
    {.path = "/admin/pause", .method = "POST", .answer = &Routes::OrderEngine},
    {.path = "/admin/resume", .method = "POST", .answer = &Routes::OrderEngine},
    {.path = "/admin/drain", .method = "POST", .answer = &Routes::OrderEngine},
    {.path = "/admin/cache_flush", .method = "POST", .answer = &Routes::OrderEngine},
    {.path = "/tokenize", .method = "POST", .text = &Tokenize},
    {.path = "/detokenize", .method = "POST", .text = &Detokenize},
    {.path = "/tokenizer_info", .method = "GET", .answer = &Routes::Tokenizer},
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

// A client's base URL may lack the /v1 that its paths are behind, or have one too many.
const Routes::Route* Routes::FindMeant(const std::string& path) {
  if (const Route* behind = Find("/v1" + path, "")) return behind;
  return path.starts_with("/v1/") && path.size() > 4 ? Find(path.substr(3), "") : nullptr;
}

std::string Routes::WhatIsMeant(const std::string& path) {
  if (FindMeant(path) == nullptr) return "";
  const bool lacks = Find("/v1" + path, "") != nullptr;
  return StrCat(", but there is ", Quote(lacks ? "/v1" + path : path.substr(3)),
                ", so the base URL that the client is given should ", lacks ? "" : "not ",
                "end with /v1");
}

ErrorForm Routes::FormOfUnknown(const std::string& path) {
  if (const Route* meant = FindMeant(path)) return meant->errors;
  if (path.starts_with("/api/")) return ErrorForm::kOllama;
  if (path.starts_with("/v1/messages/")) return ErrorForm::kAnthropic;
  return path.starts_with("/v2/") ? ErrorForm::kCohere : ErrorForm::kOpenAi;
}

Routes::Routes(Models& models, ApiKeys keys, std::function<HttpState()> http, RequestsLogged logged)
    : models_(models),
      keys_(std::make_shared<const ApiKeys>(std::move(keys))),
      http_(std::move(http)),
      started_(std::time(nullptr)),
      log_(logged) {}

std::shared_ptr<const ApiKeys> Routes::Keys() const {
  std::lock_guard lock(keys_mutex_);
  return keys_;
}

void Routes::ReplaceKeys(ApiKeys keys) {
  auto replaced = std::make_shared<const ApiKeys>(std::move(keys));
  std::lock_guard lock(keys_mutex_);
  keys_.swap(replaced);
}

void Routes::Handle(HttpRequest request, std::shared_ptr<Exchange> exchange) {
  const std::string method = request.method;
  Guarded(method, *exchange, [&] { Dispatch(std::move(request), exchange); });
}

std::optional<HttpReply> Routes::Admit(HttpRequest* head) {
  const Route* route = Find(head->path, head->method);
  const ErrorForm errors = route == nullptr ? FormOfUnknown(head->path) : route->errors;
  std::optional<KeyHolder> holder = Keys()->Find(head->authorization, head->api_key);
  if (!holder && (route == nullptr || !route->open)) {
    return ErrorReply(
        Status(StatusCode::kUnauthenticated,
               "no or wrong API key; send the header Authorization: Bearer KEY or x-api-key: KEY"),
        errors);
  }
  if (route == nullptr) {
    return HttpErrorReply(404,
                          StrCat("there is no path ", Quote(head->path), WhatIsMeant(head->path),
                                 "; this server has the model", models_.several() ? "s " : " ",
                                 models_.Listed(), ", and GET /openapi.json lists its paths"),
                          errors);
  }
  if (head->method != route->method) {
    std::string allowed;
    for (const Route& other : kRoutes) {
      if (Names(other, head->path)) allowed += StrCat(allowed.empty() ? "" : ", ", other.method);
    }
    HttpReply reply = HttpErrorReply(
        405,
        StrCat("the path ", Quote(head->path), " takes ", allowed, ", not ", Quote(head->method)),
        errors);
    reply.headers.emplace_back("Allow", allowed);
    return reply;
  }
  if (holder) {
    head->key_salt = std::move(holder->salt);
    head->key_weight = holder->weight;
    head->key_name = std::move(holder->name);
    head->admin = holder->admin || (head->key_salt.empty() && head->local);
  }
  return std::nullopt;
}

void Routes::Dispatch(HttpRequest request, const ExchangeRef& exchange) {
  if (!request.key_name.empty()) exchange->Note({}, {{"key", request.key_name}});
  const Route& route = *Find(request.path, request.method);
  if (route.answer != nullptr) {
    exchange->Reply((this->*route.answer)(request));
  } else if (route.begin != nullptr) {
    (this->*route.begin)(request, exchange);
  } else {
    DispatchToModel(route, std::move(request), exchange);
  }
}

void Routes::DispatchToModel(const Route& route, HttpRequest request, const ExchangeRef& exchange) {
  // The reader of the body refuses a name that is not the only one's.
  const Result<std::string> name =
      models_.Resolve(models_.several() ? ModelNamedIn(request.body, "model") : "");
  if (!name.ok()) return exchange->Reply(ErrorReply(name.status(), route.errors));
  exchange->Note({}, {{"model", *name}});
  if (const Result<ModelUse> model = models_.Find(*name); model.ok()) {
    return Answer(route, *model, request, exchange);
  }
  if (LetGo(route, *name, request, *exchange)) return;
  if (const Status other = models_.Resolve(ModelNamedIn(request.body, "model")).status();
      !other.ok())
    return exchange->Reply(ErrorReply(other, route.errors));
  const auto kept = std::make_shared<const HttpRequest>(std::move(request));
  models_.Await(*name, [this, &route, kept, exchange](const Result<ModelUse>& model) {
    Guarded(kept->method, *exchange, [&] {
      if (!model.ok()) {
        return exchange->Reply(ErrorReply(LoadFailure(model.status()), route.errors));
      }
      Answer(route, *model, *kept, exchange);
    });
  });
}

void Routes::Answer(const Route& route, const ModelUse& model, const HttpRequest& request,
                    const ExchangeRef& exchange) {
  if (route.ask != nullptr) {
    (this->*route.ask)(model, request, exchange);
  } else if (route.text != nullptr) {
    AnswerText(route, model, request, *exchange);
  } else {
    Generate(route, model, request, exchange);
  }
}

void Routes::AnswerText(const Route& route, const ModelUse& model, const HttpRequest& request,
                        Exchange& exchange) const {
  const auto gone = GoneFlag(exchange);
  if (*gone) return;  // while it waited for a worker
  exchange.Reply(
      BodyReply(route.text(model->engine, model->facts, request.body, *gone), route.errors));
}

void Routes::Generate(const Route& route, const ModelUse& model, const HttpRequest& request,
                      const ExchangeRef& exchange) {
  Result<ApiCall> call = route.read(request.body, model->facts);
  if (!call.ok()) {
    exchange->Reply(ErrorReply(call.status(), route.errors));
    return;
  }
  const bool leaves = KeepAlive(model->facts.name, call->keep_alive_s, request);
  if (call->requests.empty()) {  // as Ollama's clients load a model
    HttpReply reply;
    reply.body = OllamaLoaded(*call, leaves);
    exchange->Reply(std::move(reply));
    return;
  }
  call->errors = route.errors;
  Start(model, std::move(call).value(), route.format, request, exchange);
}

bool Routes::KeepAlive(const std::string& name, std::optional<double> seconds,
                       const HttpRequest& request) {
  if (!seconds || !request.admin || !models_.several()) return false;
  models_.KeepFor(
      name, *seconds < 0 ? std::nullopt : std::optional(static_cast<int64_t>(*seconds * 1e6)));
  return *seconds == 0;
}

bool Routes::LetGo(const Route& route, const std::string& name, const HttpRequest& request,
                   Exchange& exchange) {
  if (route.errors != ErrorForm::kOllama || route.read == nullptr) return false;
  const Result<ApiCall> call = route.read(request.body, {name, 0, {}});
  if (!call.ok() || !call->requests.empty() || call->keep_alive_s != 0.0) return false;
  HttpReply reply;
  reply.body = OllamaLoaded(*call, true);
  exchange.Reply(std::move(reply));
  return true;
}

HttpReply Routes::NoAdminReply(const char* what_takes) {
  return HttpErrorReply(403, StrCat(what_takes,
                                    " an API key that the key file marks with admin or, where no "
                                    "key is asked for, a client on the server's machine"));
}

void Routes::OrderModel(const HttpRequest& request, const ExchangeRef& exchange) {
  const Result<ModelOrder> order = ReadModelOrder(request.path, request.body);
  if (!order.ok()) return exchange->Reply(ErrorReply(order.status()));
  if (!request.admin) return exchange->Reply(NoAdminReply("loading and unloading takes"));
  const Result<ModelReport> known = ReportOf(order->name);
  if (!known.ok()) return exchange->Reply(ErrorReply(known.status()));
  const auto answer = [this, name = known->name, exchange](const Status& status) {
    if (!status.ok()) return exchange->Reply(ErrorReply(LoadFailure(status)));
    OrderedJson json{{"success", true}};
    json.update(ModelJson(*ReportOf(name), started_));
    exchange->Reply(JsonReply(json));
  };
  if (order->load) {
    models_.Load(known->name, [answer](const Result<ModelUse>& use) { answer(use.status()); });
  } else {
    models_.Unload(known->name, answer);
  }
}

void Routes::Profile(const ModelUse& model, const HttpRequest& request,
                     const ExchangeRef& exchange) {
  if (!request.admin) return exchange->Reply(NoAdminReply("a profile takes"));
  Result<std::string> command = ReadProfileCommand(request.body, model->facts);
  if (!command.ok()) return exchange->Reply(ErrorReply(command.status()));
  profiles_->Take(model, *std::move(command), exchange);
}

void Routes::Ended(const ExchangeRecord& record) {
  const Route* route = Find(record.path);
  log_.Add(record, route == nullptr ? "other" : route->path);
}

}  // namespace sluice::server
