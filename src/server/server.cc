// The server behind the public header: options and keys in, an HTTP server over the routes out.
#include "sluice/server.h"

#include <chrono>
#include <optional>

#include "base/check_range.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/parse_bytes.h"
#include "base/str_cat.h"
#include "server/api_keys.h"
#include "server/http/host_policy.h"
#include "server/http/http.h"
#include "server/http/origin_policy.h"
#include "server/routes.h"
#include "server/shared/models.h"

namespace sluice {
namespace {

// After the engine has drained, what the last answers get to reach their clients.
constexpr double kFlushSeconds = 2;
// Between two lines of what runs.
constexpr auto kActivityInterval = std::chrono::seconds(10);

// Numbers that did not come through a command line are checked here.
class RangeCheck {
 public:
  template <class T, class Bound>
  void operator()(const T& value, const char* name, const char*, Bound low, Bound high) {
    if (status.ok() && (value < static_cast<T>(low) || value > static_cast<T>(high))) {
      status = InvalidArgument(RangeError(name, value, low, high), name);
    }
  }
  void operator()(const std::string&, const char*, const char*) {}
  void operator()(bool, const char*, const char*) {}

  Status status;
};

Result<server::Models::Options> ModelsOptions(const ServerOptions& options) {
  server::Models::Options wanted;
  wanted.autoload = options.models_autoload;
  wanted.drain_seconds = options.drain_seconds;
  if (options.memory_budget.empty()) return wanted;
  SLUICE_ASSIGN_OR_RETURN(const size_t bytes, ParseBytes(options.memory_budget, "--memory-budget"));
  if (bytes == 0) {
    return InvalidArgument("--memory-budget is 0; give it a size, or leave it out",
                           "memory-budget");
  }
  wanted.budget_bytes = static_cast<int64_t>(bytes);
  return wanted;
}

class ServerImpl : public Server {
 public:
  ServerImpl(std::unique_ptr<server::Models> models, server::ApiKeys keys,
             server::RequestsLogged logged, std::string key_file)
      : models_(std::move(models)),
        key_file_(std::move(key_file)),
        keyless_(!keys.required()),
        routes_(
            *models_, std::move(keys), [this] { return HttpState(); }, logged),
        logs_(logged != server::RequestsLogged::kNone) {}
  ~ServerImpl() override {
    Stop(0);
    models_->Close();
  }

  Status Listen(const ServerOptions& options) {
    auto http = server::HttpServer::Open(
        options, [this](server::HttpRequest* head) { return Admit(head); },
        [this](server::HttpRequest&& request, std::shared_ptr<server::Exchange> exchange) {
          routes_.Handle(std::move(request), std::move(exchange));
        },
        [this](const server::ExchangeRecord& record) { routes_.Ended(record); });
    if (!http.ok()) return http.status();
    http_ = std::move(http).value();
    SLUICE_ASSIGN_OR_RETURN(
        hosts_, server::HostPolicy::Parse(options.allow_host, keyless_ && http_->loopback()));
    SLUICE_ASSIGN_OR_RETURN(origins_, server::OriginPolicy::Parse(options.allow_origin));
    SLUICE_RETURN_IF_ERROR(http_->Run());
    if (logs_) {
      activity_.emplace([this] { return Activity(); }, routes_.tokens(), kActivityInterval,
                        [](const std::string& line) { LogInfo(line); });
    }
    if (keyless_ && !http_->loopback()) {
      LogWarning("the server listens on ", options.host,
                 " and asks for no key: anyone who reaches it may use it; set --api-key-file");
    }
    return OkStatus();
  }

  Status ReloadKeys() override {
    if (keyless_) {
      return Status(StatusCode::kFailedPrecondition,
                    "the server began without keys; start it with --api-key-file");
    }
    SLUICE_ASSIGN_OR_RETURN(server::ApiKeys keys, server::ApiKeys::Load(key_file_));
    routes_.ReplaceKeys(std::move(keys));
    return OkStatus();
  }

  int port() const override { return http_->port(); }

  void Stop(double drain_seconds) override {
    if (stopped_ || !http_) return;
    stopped_ = true;
    activity_.reset();
    models_->BeginStop();  // first: an answer that closes its connection tells why, at /ready
    http_->StopAccepting();
    models_->Drain(drain_seconds);
    models_->Close();
    routes_.EndLiveStreams();
    http_->Stop(kFlushSeconds);
  }

  void HurryStop() override { models_->CancelAll(); }

 private:
  server::HttpState HttpState() const {
    return {http_->connections(), http_->OldestWorkMs(NowMicros())};
  }
  // Of all models together.
  EngineInfo Activity() const {
    EngineInfo sum;
    for (const server::ModelUse& model : models_->Loaded()) {
      const EngineInfo info = model->engine.Info();
      sum.running += info.running;
      sum.waiting += info.waiting;
      sum.prefill_tokens += info.prefill_tokens;
      sum.kv_blocks += info.kv_blocks;
      sum.kv_free_blocks += info.kv_free_blocks;
    }
    return sum;
  }
  std::optional<server::HttpReply> Admit(server::HttpRequest* head) {
    if (auto refusal = hosts_.Refuse(*head)) return refusal;
    head->reply_fields = origins_.FieldsFor(*head);
    if (auto preflight = origins_.Preflight(*head)) return preflight;
    return routes_.Admit(head);
  }

  const std::unique_ptr<server::Models> models_;
  const std::string key_file_;
  const bool keyless_;
  server::HostPolicy hosts_;      // const once the server runs
  server::OriginPolicy origins_;  // const once the server runs
  server::Routes routes_;
  const bool logs_;
  std::unique_ptr<server::HttpServer> http_;
  bool stopped_ = false;
  std::optional<server::ActivityLog> activity_;
};

}  // namespace

Status Server::Check(const ServerOptions& options) {
  RangeCheck ranges;
  ServerOptions(options).ForEach(ranges);
  SLUICE_RETURN_IF_ERROR(ranges.status);
  SLUICE_ASSIGN_OR_RETURN(const server::ApiKeys keys, server::ApiKeys::Load(options.api_key_file));
  SLUICE_RETURN_IF_ERROR(server::OriginPolicy::Parse(options.allow_origin).status());
  SLUICE_RETURN_IF_ERROR(server::ParseRequestsLogged(options.log_requests).status());
  SLUICE_RETURN_IF_ERROR(ModelsOptions(options).status());
  SLUICE_ASSIGN_OR_RETURN(const auto http,
                          server::HttpServer::Open(options, nullptr, nullptr, nullptr));
  return server::HostPolicy::Parse(options.allow_host, !keys.required() && http->loopback())
      .status();
}

namespace {

Result<std::unique_ptr<Server>> StartWith(std::unique_ptr<server::Models> models,
                                          const ServerOptions& options,
                                          const std::function<void()>& loaded) {
  SLUICE_ASSIGN_OR_RETURN(server::ApiKeys keys, server::ApiKeys::Load(options.api_key_file));
  SLUICE_ASSIGN_OR_RETURN(const server::RequestsLogged logged,
                          server::ParseRequestsLogged(options.log_requests));
  SLUICE_RETURN_IF_ERROR(models->LoadAtStart());
  if (loaded != nullptr) loaded();
  auto server = std::make_unique<ServerImpl>(std::move(models), std::move(keys), logged,
                                             options.api_key_file);
  SLUICE_RETURN_IF_ERROR(server->Listen(options));
  return std::unique_ptr<Server>(std::move(server));
}

Status CheckRanges(const ServerOptions& options) {
  RangeCheck ranges;
  ServerOptions(options).ForEach(ranges);
  return ranges.status;
}

}  // namespace

Result<std::unique_ptr<Server>> Server::Start(Engine& engine, const ServerOptions& options) {
  SLUICE_RETURN_IF_ERROR(CheckRanges(options));
  return StartWith(std::make_unique<server::Models>(engine), options, nullptr);
}

Result<std::unique_ptr<Server>> Server::Start(std::vector<ModelToServe> models,
                                              const ServerOptions& options,
                                              const std::function<void()>& loaded) {
  SLUICE_RETURN_IF_ERROR(CheckRanges(options));
  SLUICE_ASSIGN_OR_RETURN(const server::Models::Options wanted, ModelsOptions(options));
  return StartWith(std::make_unique<server::Models>(std::move(models), wanted), options, loaded);
}

}  // namespace sluice
