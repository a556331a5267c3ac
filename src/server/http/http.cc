#include "server/http/http.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/strand.hpp>

#include <thread>

#include "base/log.h"
#include "base/str_cat.h"
#include "server/http/connection.h"

namespace sluice::server {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr auto kAcceptRetry = std::chrono::milliseconds(100);

class HttpServerImpl : public HttpServer {
 public:
  HttpServerImpl(const ServerOptions& options, Gate gate, Handler handler, Observer observer)
      : core_(std::make_shared<Core>(options, std::move(gate), std::move(handler),
                                     std::move(observer))),
        acceptor_(core_->io),
        retry_(core_->io),
        work_(asio::make_work_guard(core_->io)) {}
  ~HttpServerImpl() override { Stop(0); }

  // Reads the files for TLS, and binds, without listening.
  Status Prepare();
  Status Run() override;
  int port() const override { return endpoint_.port(); }
  bool loopback() const override { return endpoint_.address().is_loopback(); }
  int64_t connections() const override {
    std::lock_guard lock(core_->mutex);
    return static_cast<int64_t>(core_->connections.size());
  }
  int64_t OldestWorkMs(int64_t now_us) const override { return core_->work.OldestMs(now_us); }
  void StopAccepting() override;
  void Stop(double seconds) override;

 private:
  Status Bind();
  Status NoPort(error_code error) const;
  void Accept();
  void OnAccepted(error_code error, tcp::socket socket);

  const std::shared_ptr<Core> core_;
  tcp::acceptor acceptor_;  // used by one network thread at a time, between Run and StopAccepting
  asio::steady_timer retry_;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;
  std::vector<std::thread> threads_;
  tcp::endpoint endpoint_;  // that it listens on
};

Status HttpServerImpl::Prepare() {
  const ServerOptions& options = core_->options;
  if (options.tls_cert.empty() && options.tls_key.empty()) return Bind();
  if (options.tls_cert.empty() || options.tls_key.empty()) {
    const char* missing = options.tls_cert.empty() ? "tls-cert" : "tls-key";
    return InvalidArgument(
        StrCat("TLS takes a certificate and its key, and --", missing, " is missing"), missing);
  }
  SLUICE_ASSIGN_OR_RETURN(core_->tls, Tls::Load(options.tls_cert, options.tls_key));
  return Bind();
}

Status HttpServerImpl::Bind() {
  const ServerOptions& options = core_->options;
  error_code error;
  tcp::resolver resolver(core_->io);
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
  if (error || found.empty()) {
    return InvalidArgument(
        StrCat("the address ", options.host, " cannot be listened on: ", error.message()), "host");
  }
  const tcp::endpoint endpoint = *found.begin();
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (error) return NoPort(error);
  endpoint_ = acceptor_.local_endpoint(error);
  return OkStatus();
}

Status HttpServerImpl::NoPort(error_code error) const {
  const ServerOptions& options = core_->options;
  if (error == asio::error::address_in_use) {
    return {StatusCode::kIo, StrCat("port ", options.port, " of ", options.host,
                                    " is in use; choose another with --port")};
  }
  return {StatusCode::kIo, StrCat("port ", options.port, " of ", options.host, " cannot be had: ",
                                  error.message(), "; choose another with --host and --port")};
}

// One connection's failure (memory, most likely) does not end the others.
void RunNetwork(asio::io_context& io) {
  for (;;) {
    try {
      io.run();
      return;
    } catch (const std::exception& error) {
      LogError("a connection failed: ", error.what());
    }
  }
}

Status HttpServerImpl::Run() {
  error_code error;
  acceptor_.listen(tcp::acceptor::max_listen_connections, error);
  if (error) return NoPort(error);
  Accept();
  for (int i = 0; i < core_->options.http_threads; ++i) {
    threads_.emplace_back([core = core_] { RunNetwork(core->io); });
  }
  return OkStatus();
}

void HttpServerImpl::Accept() {
  acceptor_.async_accept(
      asio::make_strand(core_->io),
      [this](error_code error, tcp::socket socket) { OnAccepted(error, std::move(socket)); });
}

void HttpServerImpl::OnAccepted(error_code error, tcp::socket socket) {
  if (core_->draining || error == asio::error::operation_aborted) return;
  if (error) {
    // No descriptors are left, most likely; some come back as connections close.
    LogWarning("a connection was not accepted: ", error.message());
    retry_.expires_after(kAcceptRetry);
    retry_.async_wait([this](error_code stopped) {
      if (!stopped && !core_->draining) Accept();
    });
    return;
  }
  using Entry = ConnectionPlaces::Entry;
  auto connection = std::make_shared<Connection>(
      core_, core_->tls ? core_->tls->Wrap(std::move(socket)) : MakePlainWire(std::move(socket)));
  std::shared_ptr<Connection> evicted;  // as `connection`, may end only without the lock
  Entry entry;
  {
    std::unique_lock lock(core_->mutex);
    if (core_->draining) {
      lock.unlock();
      return;
    }
    const auto admission = core_->places.Enter(connection.get(), connection->owner());
    entry = admission.entry;
    if (admission.evicted) evicted = core_->connections.at(admission.evicted).lock();
    if (entry != Entry::kNothing) core_->connections.emplace(connection.get(), connection);
  }
  if (evicted) evicted->CloseSoon();
  if (entry != Entry::kNothing) connection->Start(entry == Entry::kRefusal);
  Accept();
}

void HttpServerImpl::StopAccepting() {
  {
    std::lock_guard lock(core_->mutex);
    if (core_->draining.exchange(true)) return;
  }
  asio::post(core_->io, [this] {
    error_code ignored;
    acceptor_.close(ignored);
    retry_.cancel();
  });
}

void HttpServerImpl::Stop(double seconds) {
  StopAccepting();
  if (!work_) return;
  std::vector<std::shared_ptr<Connection>> open;
  {
    std::unique_lock lock(core_->mutex);
    core_->idle.wait_for(lock, std::chrono::duration<double>(seconds),
                         [this] { return core_->exchanges == 0; });
    for (const auto& [key, weak] : core_->connections) {
      if (auto connection = weak.lock()) open.push_back(std::move(connection));
    }
  }
  for (const auto& connection : open) connection->CloseSoon();
  open.clear();
  core_->workers.join();
  work_.reset();
  if (threads_.empty()) RunNetwork(core_->io);  // never started: what was posted still runs
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace

std::shared_ptr<const std::atomic<bool>> GoneFlag(Exchange& exchange) {
  auto gone = std::make_shared<std::atomic<bool>>(false);
  exchange.OnDisconnect([gone] { *gone = true; });
  return gone;
}

Result<std::unique_ptr<HttpServer>> HttpServer::Open(const ServerOptions& options, Gate gate,
                                                     Handler handler, Observer observer) {
  auto server = std::make_unique<HttpServerImpl>(options, std::move(gate), std::move(handler),
                                                 std::move(observer));
  SLUICE_RETURN_IF_ERROR(server->Prepare());
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace sluice::server
