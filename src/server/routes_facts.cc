// What the routes answer at once: models, health, metrics, the page, what is stored and what runs.
#include <algorithm>
#include <ctime>

#include "base/clock.h"
#include "base/parse_number.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "server/experts_api.h"
#include "server/http/errors.h"
#include "server/http/target.h"
#include "server/llama/llama_api.h"
#include "server/models_api.h"
#include "server/ollama/ollama_api.h"
#include "server/openai/text_api.h"
#include "server/openapi/openapi.h"
#include "server/routes.h"
#include "server/web_files.h"

namespace sluice::server {
namespace {

// The page runs its own scripts alone, talks to this server alone, and stands in no other page.
constexpr const char* kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string CounterText(const char* name, const char* help, int64_t value) {
  return StrCat("# HELP ", name, " ", help, "\n# TYPE ", name, " counter\n", name, " ", value,
                "\n");
}

HttpReply NoResponse(const std::string& id) {
  return ErrorReply(
      Status(StatusCode::kNotFound,
             StrCat("there is no response ", Quote(id), " of this key; it may have been too old"),
             "response_id"));
}

}  // namespace

HttpReply Routes::ListModels(const HttpRequest&) const {
  OrderedJson json;
  json["object"] = "list";
  json["data"] = OrderedJson::array();
  for (const ModelReport& report : models_.Report()) {
    json["data"].push_back(ModelJson(report, started_));
  }
  return JsonReply(json);
}

Result<ModelReport> Routes::ReportOf(const std::string& asked) const {
  SLUICE_ASSIGN_OR_RETURN(const std::string name, models_.Resolve(asked));
  std::vector<ModelReport> reports = models_.Report();
  return *std::find_if(reports.begin(), reports.end(),
                       [&](const ModelReport& report) { return report.name == name; });
}

HttpReply Routes::FindModel(const HttpRequest& request) const {
  const Result<ModelReport> report =
      ReportOf(Unescaped(request.path.substr(std::string_view(kModelPrefix).size())));
  if (!report.ok()) return ErrorReply(report.status());
  return JsonReply(ModelJson(*report, started_));
}

HttpReply Routes::ShowExperts(const HttpRequest& request) const {
  if (!request.admin) return NoAdminReply("/admin/experts takes");
  const Result<std::string> command = ReadExpertsQuery(request.query);
  if (!command.ok()) return ErrorReply(command.status());
  const Result<std::string> name = models_.Resolve(QueryValue(request.query, "model"));
  if (!name.ok()) return ErrorReply(name.status());
  const Result<ModelUse> model = models_.Find(*name);
  if (!model.ok()) return ErrorReply(model.status());
  return BodyReply((*model)->engine.Admin(*command));
}

HttpReply Routes::MoveExperts(const HttpRequest& request) const {
  if (!request.admin) return NoAdminReply("/admin/experts takes");
  return OrderReply(ReadExpertsOrder(request.body));
}

HttpReply Routes::OrderEngine(const HttpRequest& request) const {
  if (!request.admin) return NoAdminReply("an order to a model's engine takes");
  return OrderReply(ReadEngineOrder(request.path, request.body));
}

HttpReply Routes::OrderReply(const Result<EngineOrder>& order) const {
  if (!order.ok()) return ErrorReply(order.status());
  const Result<std::string> name = models_.Resolve(order->model);
  if (!name.ok()) return ErrorReply(name.status());
  const Result<ModelUse> model = models_.Find(*name);
  if (!model.ok()) return ErrorReply(model.status());
  return BodyReply((*model)->engine.Admin(order->command));
}

// Each event has the number of its id in the stream, less one, as sequence_number.
void Routes::FindResponse(const HttpRequest& request, const ExchangeRef& exchange) {
  const std::string id = request.path.substr(std::string_view(kResponsePrefix).size());
  const std::string stream = QueryValue(request.query, "stream");
  const std::string after = QueryValue(request.query, "starting_after");
  if (stream.empty() || stream == "false") {
    return exchange->Reply(ShowResponse(request.key_salt, id));
  }
  const std::optional<uint32_t> last = ParseNumber<uint32_t>(after);
  if (stream != "true") {
    return exchange->Reply(ErrorReply(InvalidArgument(
        StrCat("stream is ", Quote(stream), "; it must be true or false"), "stream")));
  }
  if (!after.empty() && !last) {
    return exchange->Reply(ErrorReply(
        InvalidArgument(StrCat("starting_after is ", Quote(after),
                               "; it must be the sequence_number of the last event that came"),
                        "starting_after")));
  }
  const uint64_t seen = last ? uint64_t{*last} + 1 : 0;
  const Status status = resumable_.ResumeBehind(request.key_salt, id, seen, exchange);
  if (status.ok()) return;
  if (status.code() != StatusCode::kNotFound) return exchange->Reply(ErrorReply(status));
  exchange->Reply(ErrorReply(Status(
      StatusCode::kNotFound,
      StrCat("no stream of the response ", Quote(id), " goes on from ",
             last ? StrCat("the event ", *last) : "its beginning",
             "; one can be had again where its request had background or resume_seconds, within "
             "those of its end; GET without stream shows a response of this key"),
      "id")));
}

HttpReply Routes::ShowResponse(const std::string& key, const std::string& id) const {
  // First those that run: one that ends is stored before it is none of them any more.
  HttpReply reply;
  if (Result<std::string> now = running_->Do(key, id, AnswerAction::kShow); now.ok()) {
    reply.body = *std::move(now);
    return reply;
  }
  const auto stored = responses_->Find(key, id, NowMicros());
  if (stored == nullptr) return NoResponse(id);
  reply.body = stored->body;
  return reply;
}

HttpReply Routes::DeleteResponse(const HttpRequest& request) const {
  const std::string id = request.path.substr(std::string_view(kResponsePrefix).size());
  const bool ran = running_->Do(request.key_salt, id, AnswerAction::kCancel).ok();
  if (!responses_->Remove(request.key_salt, id, NowMicros()) && !ran) return NoResponse(id);
  resumable_.Forget(request.key_salt, id);
  return JsonReply(OrderedJson{{"id", id}, {"object", "response"}, {"deleted", true}});
}

HttpReply Routes::CancelResponse(const HttpRequest& request) const {
  constexpr std::string_view kCancel = "/cancel";
  std::string id = request.path.substr(std::string_view(kResponsePrefix).size());
  if (!id.ends_with(kCancel)) {
    return HttpErrorReply(404,
                          "a response takes a POST of its cancel alone, /v1/responses/ID/cancel");
  }
  id.resize(id.size() - kCancel.size());
  HttpReply reply;
  if (auto cancelled = running_->Do(request.key_salt, id, AnswerAction::kCancel); cancelled.ok()) {
    reply.body = *std::move(cancelled);
    return reply;
  }
  const auto stored = responses_->Find(request.key_salt, id, NowMicros());
  if (stored == nullptr) return NoResponse(id);
  if (stored->status != "cancelled") {
    return ErrorReply(InvalidArgument(StrCat("the response ", Quote(id), " is ", stored->status,
                                             "; only one that runs can be cancelled"),
                                      "response_id"));
  }
  reply.body = stored->body;  // it was asked for once more
  return reply;
}

HttpReply Routes::CreateFile(const HttpRequest& request) const {
  return server::CreateFile(request, files_.get());
}

HttpReply Routes::ListFiles(const HttpRequest& request) const {
  return server::ListFiles(request, files_.get());
}

HttpReply Routes::FindFile(const HttpRequest& request) const {
  return server::FindFile(request, files_.get());
}

HttpReply Routes::DeleteFile(const HttpRequest& request) const {
  return server::DeleteFile(request, files_.get());
}

HttpReply Routes::CreateBatch(const HttpRequest& request) const {
  return batches_->Create(request);
}

HttpReply Routes::ListBatches(const HttpRequest& request) const { return batches_->List(request); }

HttpReply Routes::FindBatch(const HttpRequest& request) const { return batches_->Find(request); }

HttpReply Routes::CancelBatch(const HttpRequest& request) const {
  return batches_->Cancel(request);
}

EngineHealth Routes::WholeHealth() const {
  EngineHealth health{.ok = true, .ready = true};
  for (const ModelUse& model : models_.Loaded()) {
    EngineHealth own = model->engine.Health();
    if (models_.several() && !own.reason.empty()) {
      own.reason = StrCat("the model \"", model->facts.name, "\": ", own.reason);
    }
    if ((health.ok && !own.ok) || (health.ready && !own.ready)) health = std::move(own);
    if (!health.ok) break;
  }
  if (health.ready && models_.stopping()) health = {.ok = true, .reason = "draining"};
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
  std::vector<std::string> texts = {LoadedMetric(models_.Report())};
  for (const ModelUse& model : models_.Loaded()) texts.push_back(model->engine.Metrics());
  reply.body = MergedMetrics(texts);
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
  std::vector<std::string> backends;
  for (const ModelReport& report : models_.Report()) {
    if (backends.empty()) backends = report.info.backends;
  }
  return JsonReply(OrderedJson{{"name", "sluice"},
                               {"version", SLUICE_VERSION},
                               {"commit", SLUICE_COMMIT},
                               {"compiler", SLUICE_COMPILER},
                               {"backends", backends}});
}

HttpReply Routes::Tokenizer(const HttpRequest& request) const {
  const Result<std::string> name = models_.Resolve(QueryValue(request.query, "model"));
  if (!name.ok()) return ErrorReply(name.status());
  const Result<ModelUse> model = models_.Find(*name);
  if (!model.ok()) return ErrorReply(model.status());
  return JsonReply(DescribeTokenizer((*model)->engine));
}

std::string Routes::ShowRequests(const Watcher& watcher) const {
  OrderedJson json;
  json["requests"] = timelines_->Recent(watcher.key, watcher.all, NowMicros());
  // They tell of calls by anybody.
  if (watcher.all) json["errors"] = log_.RecentErrors();
  return DumpJson(json);
}

void Routes::WatchRequests(const HttpRequest& request, const ExchangeRef& exchange) {
  // Without keys all clients are one, and who knows the id of another's answer can end it.
  if (request.key_salt.empty() && !request.admin) {
    return exchange->Reply(NoAdminReply("watching the requests of a server without keys takes"));
  }
  live_.Watch({request.key_salt, request.admin}, exchange);
}

HttpReply Routes::ShowTimeline(const HttpRequest& request) const {
  return BodyReply(timelines_->Show(request.key_salt, request.path, NowMicros()),
                   ErrorForm::kOpenAi);
}

HttpReply Routes::LlamaProps(const HttpRequest& request) const {
  const Result<ModelReport> report = ReportOf(QueryValue(request.query, "model"));
  if (!report.ok()) return ErrorReply(report.status());
  const Result<ModelUse> model = models_.Find(report->name);
  return JsonReply(server::LlamaProps(
      report->info, model.ok() ? (*model)->engine.DescribeTokenizer() : TokenizerInfo()));
}

HttpReply Routes::LlamaSlots(const HttpRequest& request) const {
  const Result<ModelReport> report = ReportOf(QueryValue(request.query, "model"));
  if (!report.ok()) return ErrorReply(report.status());
  return JsonReply(server::LlamaSlots(report->info));
}

HttpReply Routes::OllamaShow(const HttpRequest& request) const {
  std::string asked = ModelNamedIn(request.body, "model");
  if (asked.empty()) asked = ModelNamedIn(request.body, "name");
  const Result<ModelReport> report = ReportOf(asked);
  if (!report.ok()) return ErrorReply(report.status(), ErrorForm::kOllama);
  std::string chat_template;  // of a model that is not loaded nobody has it
  for (const ModelUse& model : models_.Loaded()) {
    if (model->facts.name != report->name) continue;
    chat_template = model->engine.DescribeTokenizer().chat_template;
  }
  return BodyReply(server::OllamaShow(report->info, chat_template, started_, request.body),
                   ErrorForm::kOllama);
}

HttpReply Routes::OllamaTags(const HttpRequest&) const {
  return JsonReply(server::OllamaTags(models_.Report(), started_));
}

HttpReply Routes::OllamaRunning(const HttpRequest&) const {
  return JsonReply(server::OllamaRunning(models_.Report(), std::time(nullptr)));
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
    return HttpErrorReply(404, StrCat("the page has no file ", Quote(request.path)));
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
