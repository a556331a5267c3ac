// The server behind the public header: options and keys in, an HTTP server over the routes out.
#include "sluice/server.h"

#include <chrono>
#include <optional>

#include "base/check_range.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str_cat.h"
#include "server/api_keys.h"
#include "server/host_policy.h"
#include "server/http.h"
#include "server/origin_policy.h"
#include "server/routes.h"

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

  Status status;
};

class ServerImpl : public Server {
 public:
  ServerImpl(Engine& engine, server::ApiKeys keys, server::RequestsLogged logged)
      : engine_(engine),
        keyless_(!keys.required()),
        routes_(
            engine, std::move(keys), [this] { return HttpState(); }, logged),
        logs_(logged != server::RequestsLogged::kNone) {}
  ~ServerImpl() override { Stop(0); }

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
    http_->Run();
    if (logs_) {
      activity_.emplace(engine_, routes_.tokens(), kActivityInterval,
                        [](const std::string& line) { LogInfo(line); });
    }
    if (keyless_ && !http_->loopback()) {
      LogWarning("the server listens on ", options.host,
                 " and asks for no key: anyone who reaches it may use it; set --api-key-file");
    }
    return OkStatus();
  }

  int port() const override { return http_->port(); }

  void Stop(double drain_seconds) override {
    if (stopped_ || !http_) return;
    stopped_ = true;
    activity_.reset();
    http_->StopAccepting();
    if (Status status = engine_.Drain(drain_seconds); !status.ok()) LogWarning(status.message());
    http_->Stop(kFlushSeconds);
  }

 private:
  server::HttpState HttpState() const {
    return {http_->connections(), http_->OldestWorkMs(NowMicros())};
  }
  std::optional<server::HttpReply> Admit(server::HttpRequest* head) {
    if (auto refusal = hosts_.Refuse(*head)) return refusal;
    head->reply_fields = origins_.FieldsFor(*head);
    if (auto preflight = origins_.Preflight(*head)) return preflight;
    return routes_.Admit(head);
  }

  Engine& engine_;
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
  SLUICE_ASSIGN_OR_RETURN(const auto http,
                          server::HttpServer::Open(options, nullptr, nullptr, nullptr));
  return server::HostPolicy::Parse(options.allow_host, !keys.required() && http->loopback())
      .status();
}

Result<std::unique_ptr<Server>> Server::Start(Engine& engine, const ServerOptions& options) {
  RangeCheck ranges;
  ServerOptions(options).ForEach(ranges);
  SLUICE_RETURN_IF_ERROR(ranges.status);
  SLUICE_ASSIGN_OR_RETURN(server::ApiKeys keys, server::ApiKeys::Load(options.api_key_file));
  SLUICE_ASSIGN_OR_RETURN(const server::RequestsLogged logged,
                          server::ParseRequestsLogged(options.log_requests));
  auto server = std::make_unique<ServerImpl>(engine, std::move(keys), logged);
  SLUICE_RETURN_IF_ERROR(server->Listen(options));
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace sluice
