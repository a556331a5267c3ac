// HTTP over Boost.Asio, parsed by Boost.Beast. A connection lives on its strand; what other threads
// may touch of it is its outbox, behind a mutex.
#include "server/http.h"

// Boost 1.81's Asio uses std::exchange without this.
#include <utility>
// Then Asio and Beast.
#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include "base/log.h"
#include "base/str_cat.h"
#include "server/beast_body.h"
#include "server/body_budget.h"
#include "server/errors.h"
#include "server/outbox.h"
#include "server/target.h"

namespace sluice::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;

// A client may send the start of its next request before it has its answer; not more than this.
constexpr size_t kAheadBytesMax = 64u << 10;
// Bodies that are in memory at once, over all connections.
constexpr int64_t kBodyBytesMax = 512ll << 20;
// A client that still sends after its refusal is listened to for this long, so that it reads it.
constexpr auto kLingerTime = std::chrono::seconds(5);
constexpr auto kAcceptRetry = std::chrono::milliseconds(100);
constexpr size_t kReadBytes = 4096;

class Connection;

// What the connections share. Outlives them.
struct Core {
  Core(const ServerOptions& server_options, Handler request_handler)
      : options(server_options), handler(std::move(request_handler)) {}

  const ServerOptions options;
  const Handler handler;
  BodyBudget bodies{kBodyBytesMax};
  asio::io_context io;
  asio::thread_pool workers{static_cast<size_t>(options.http_threads)};
  std::atomic<bool> draining = false;  // set under the mutex

  std::mutex mutex;
  std::condition_variable idle;                                            // no exchange is left
  std::unordered_map<Connection*, std::weak_ptr<Connection>> connections;  // guarded by mutex
  int64_t exchanges = 0;                                                   // guarded by mutex
};

class Connection final : public std::enable_shared_from_this<Connection>, private Outbox::Owner {
 public:
  Connection(std::shared_ptr<Core> core, tcp::socket socket)
      : core_(std::move(core)),
        socket_(std::move(socket)),
        timer_(socket_.get_executor()),
        buffer_(core_->options.max_header_bytes + kAheadBytesMax),
        outbox_(core_->options.stream_buffer_bytes, core_->draining, *this) {}
  ~Connection() {
    std::lock_guard lock(core_->mutex);
    core_->connections.erase(this);
  }

  // `full`: the server has as many connections as it may; this one is told so and closed.
  void Start(bool full);
  void CloseSoon() override {
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Abort(); });
  }
  Outbox& outbox() { return outbox_; }

 private:
  enum class State { kReading, kExchange, kIdle, kLingering, kClosed };

  // Reading; all on the strand.
  void ReadHeader();
  void OnHeader(error_code error);
  void ReadBody();
  void OnBody(error_code error);
  void OnReadError(error_code error);
  void Refuse(int status, const std::string& message);
  uint64_t BeginExchange(const ReplyHead& head);
  void Dispatch(HttpRequest request, BodyLease lease, uint64_t serial);
  void Watch();
  void OnWatched(error_code error, size_t bytes);

  // Writing and ending; all on the strand, but for FlushSoon.
  void FlushSoon() override {
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Flush(); });
  }
  void Flush();
  void Write();
  void OnWritten(error_code error, size_t bytes);
  void Done();
  void Linger();
  void Abort();
  void Arm(std::chrono::seconds time);
  void Disarm();
  void OnTimeout();
  void EndExchange();

  const std::shared_ptr<Core> core_;

  // Owned by the strand.
  tcp::socket socket_;
  asio::steady_timer timer_;
  boost::beast::flat_buffer buffer_;
  std::optional<http::request_parser<BudgetedBody>> parser_;
  State state_ = State::kReading;
  bool timed_out_ = false;
  uint64_t timer_serial_ = 0;
  bool watching_ = false;  // a read is pending beside the exchange
  bool writing_ = false;
  bool in_exchange_ = false;  // counted in the core
  bool half_closed_ = false;  // the client sends no more
  size_t lingered_bytes_ = 0;
  std::string sending_;
  size_t sent_ = 0;

  Outbox outbox_;  // has its own lock
};

class ConnectionExchange : public Exchange {
 public:
  ConnectionExchange(std::shared_ptr<Connection> connection, uint64_t serial)
      : connection_(std::move(connection)), serial_(serial) {}
  // Nobody is left who could answer: a defect, but not one to let a client hang for.
  ~ConnectionExchange() override {
    connection_->outbox().Reply(serial_, HttpErrorReply(500, "the request was dropped"));
    connection_->outbox().EndStream(serial_, true);
  }

  void Reply(HttpReply reply) override { connection_->outbox().Reply(serial_, std::move(reply)); }
  bool Stream(std::string_view bytes) override {
    return connection_->outbox().Stream(serial_, bytes);
  }
  void EndStream(bool close) override { connection_->outbox().EndStream(serial_, close); }
  void OnDisconnect(std::function<void()> call) override {
    connection_->outbox().OnDisconnect(serial_, std::move(call));
  }

 private:
  const std::shared_ptr<Connection> connection_;
  const uint64_t serial_;
};

// --- Reading ------------------------------------------------------------------------------------

void Connection::Start(bool full) {
  asio::dispatch(socket_.get_executor(), [self = shared_from_this(), full] {
    error_code ignored;
    self->socket_.set_option(tcp::no_delay(true), ignored);
    if (!full) return self->ReadHeader();
    self->Refuse(503, "the server has as many connections as it may (--max-connections)");
  });
}

void Connection::ReadHeader() {
  state_ = State::kReading;
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(core_->options.max_header_bytes));
  parser_->body_limit(static_cast<uint64_t>(core_->options.max_body_bytes));
  MeteredBody& body = parser_->get().body();
  body.lease = BodyLease(&core_->bodies);
  body.bytes_most = static_cast<size_t>(core_->options.max_body_bytes);
  Arm(std::chrono::seconds(core_->options.idle_seconds));
  http::async_read_header(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](error_code error, size_t) { self->OnHeader(error); });
}

void Connection::OnHeader(error_code error) {
  if (state_ == State::kClosed) return;
  if (error) return OnReadError(error);
  const auto& header = parser_->get();
  if (!boost::beast::iequals(header[http::field::expect], "100-continue")) return ReadBody();
  sending_ = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(socket_, asio::buffer(sending_),
                    [self = shared_from_this()](error_code failed, size_t) {
                      if (self->state_ == State::kClosed) return;
                      self->sending_.clear();
                      if (failed) return self->Abort();
                      self->ReadBody();
                    });
}

void Connection::ReadBody() {
  http::async_read(socket_, buffer_, *parser_,
                   [self = shared_from_this()](error_code error, size_t) { self->OnBody(error); });
}

void Connection::OnBody(error_code error) {
  if (state_ == State::kClosed) return;
  if (error) return OnReadError(error);
  Disarm();
  auto message = parser_->release();
  const auto text = [](auto view) { return std::string(view.data(), view.size()); };
  const bool head = message.method() == http::verb::head;
  HttpRequest request;
  request.method = head ? "GET" : text(message.method_string());
  request.path = PathOf({message.target().data(), message.target().size()});
  request.authorization = text(message[http::field::authorization]);
  request.api_key = text(message["x-api-key"]);
  request.body = std::move(message.body().text);
  const uint64_t serial = BeginExchange(
      {.keep_alive = message.keep_alive(), .http_1_0 = message.version() < 11, .head = head});
  Watch();
  Dispatch(std::move(request), std::move(message.body().lease), serial);
}

void Connection::OnReadError(error_code error) {
  const bool started = parser_->got_some() || buffer_.size() > 0;
  if (timed_out_ && started) return Refuse(408, "the request did not arrive in time");
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return Refuse(431, StrCat("the header is too long; the limit is ",
                              core_->options.max_header_bytes, " bytes (--max-header-bytes)"));
  }
  if (error == http::error::body_limit) {
    return Refuse(413, StrCat("the body is too long; the limit is ", core_->options.max_body_bytes,
                              " bytes (--max-body-bytes)"));
  }
  if (error == kNoBudget) {
    return Refuse(429, "the server has as many bodies in memory as it may; try again later");
  }
  const bool cut = error == http::error::end_of_stream || error == http::error::partial_message;
  if (!cut && error.category() == http::make_error_code(http::error::bad_version).category()) {
    return Refuse(400, StrCat("this is not HTTP: ", error.message()));
  }
  Abort();
}

// Answers a request that did not become one, and closes.
void Connection::Refuse(int status, const std::string& message) {
  Disarm();
  parser_.reset();  // with what it has of a body
  const uint64_t serial = BeginExchange({.keep_alive = false});
  outbox_.Reply(serial, HttpErrorReply(status, message));
}

uint64_t Connection::BeginExchange(const ReplyHead& head) {
  state_ = State::kExchange;
  in_exchange_ = true;
  {
    std::lock_guard lock(core_->mutex);
    ++core_->exchanges;
  }
  return outbox_.Begin(head);
}

// The lease ends with the handler, which has taken from the body what it needs.
void Connection::Dispatch(HttpRequest request, BodyLease lease, uint64_t serial) {
  auto exchange = std::make_shared<ConnectionExchange>(shared_from_this(), serial);
  const bool quick = request.method == "GET";
  auto run = [core = core_, exchange, lease = std::move(lease),
              request = std::move(request)]() mutable {
    core->handler(std::move(request), exchange);
  };
  if (quick) {
    run();
  } else {
    asio::post(core_->workers, std::move(run));
  }
}

// Keeps a read pending while a request runs: it is how the end of the client is noticed.
void Connection::Watch() {
  watching_ = true;
  socket_.async_read_some(buffer_.prepare(kReadBytes),
                          [self = shared_from_this()](error_code error, size_t bytes) {
                            self->OnWatched(error, bytes);
                          });
}

void Connection::OnWatched(error_code error, size_t bytes) {
  watching_ = false;
  if (state_ == State::kClosed) return;
  if (state_ == State::kLingering) {
    lingered_bytes_ += bytes;
    const size_t most = 4 * static_cast<size_t>(core_->options.max_body_bytes);
    if (error || lingered_bytes_ > most) return Abort();
    return Watch();
  }
  if (state_ == State::kIdle && error == asio::error::operation_aborted) return ReadHeader();
  if (error) {
    // A client that closed looks like one that only ended its side (nc -N) until something is sent
    // to it. The first is the common one and must free its sequence within a step, so an answer
    // that is being computed is given up for both.
    half_closed_ = state_ == State::kExchange && error == asio::error::eof;
    if (half_closed_ && outbox_.ClientSendsNoMore()) return;
    return Abort();
  }
  buffer_.commit(bytes);
  if (state_ == State::kIdle) return ReadHeader();
  if (buffer_.size() + kReadBytes > kAheadBytesMax) return Abort();
  Watch();
}

// --- Writing and ending -------------------------------------------------------------------------

void Connection::Flush() {
  if (state_ != State::kExchange || writing_) return;
  const bool finished = outbox_.Take(&sending_);
  sent_ = 0;
  if (sending_.empty()) {
    if (finished) Done();
    return;
  }
  writing_ = true;
  Write();
}

void Connection::Write() {
  Arm(std::chrono::seconds(core_->options.idle_seconds));
  socket_.async_write_some(asio::buffer(sending_.data() + sent_, sending_.size() - sent_),
                           [self = shared_from_this()](error_code error, size_t bytes) {
                             self->OnWritten(error, bytes);
                           });
}

void Connection::OnWritten(error_code error, size_t bytes) {
  if (state_ == State::kClosed) return;
  if (error) return Abort();
  sent_ += bytes;
  outbox_.Sent(bytes);
  if (sent_ < sending_.size()) return Write();
  Disarm();
  writing_ = false;
  Flush();
}

// The answer is out.
void Connection::Done() {
  EndExchange();
  if (!outbox_.End()) return Linger();
  if (!watching_) return ReadHeader();
  if (buffer_.size() > 0) {
    // The next request has begun to arrive; the pending read would never see its first bytes.
    error_code ignored;
    state_ = State::kIdle;
    socket_.cancel(ignored);
    return;
  }
  state_ = State::kIdle;
  Arm(std::chrono::seconds(core_->options.idle_seconds));
}

void Connection::Linger() {
  state_ = State::kLingering;
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  if (half_closed_) return Abort();
  Arm(kLingerTime);
  buffer_.consume(buffer_.size());
  if (!watching_) Watch();
}

void Connection::EndExchange() {
  if (!std::exchange(in_exchange_, false)) return;
  std::lock_guard lock(core_->mutex);
  if (--core_->exchanges == 0) core_->idle.notify_all();
}

void Connection::Abort() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  const std::function<void()> call = outbox_.Close();
  error_code ignored;
  Disarm();
  socket_.close(ignored);
  EndExchange();
  if (call) call();
}

void Connection::Arm(std::chrono::seconds time) {
  timer_.expires_after(time);
  timer_.async_wait([self = shared_from_this(), serial = ++timer_serial_](error_code error) {
    if (!error && serial == self->timer_serial_) self->OnTimeout();
  });
}

// A timer that has fired already is not stopped by cancel; its number is.
void Connection::Disarm() {
  ++timer_serial_;
  timer_.cancel();
}

void Connection::OnTimeout() {
  if (state_ == State::kClosed) return;
  if (state_ != State::kReading) return Abort();
  timed_out_ = true;  // OnReadError answers
  error_code ignored;
  socket_.cancel(ignored);
}

// --- The server ---------------------------------------------------------------------------------

class HttpServerImpl : public HttpServer {
 public:
  HttpServerImpl(const ServerOptions& options, Handler handler)
      : core_(std::make_shared<Core>(options, std::move(handler))),
        acceptor_(core_->io),
        retry_(core_->io),
        work_(asio::make_work_guard(core_->io)) {}
  ~HttpServerImpl() override { Stop(0); }

  Status Bind();
  void Run() override;
  int port() const override { return port_; }
  int64_t connections() const override {
    std::lock_guard lock(core_->mutex);
    return static_cast<int64_t>(core_->connections.size());
  }
  void StopAccepting() override;
  void Stop(double seconds) override;

 private:
  void Accept();
  void OnAccepted(error_code error, tcp::socket socket);

  const std::shared_ptr<Core> core_;
  tcp::acceptor acceptor_;  // used by one network thread at a time, between Run and StopAccepting
  asio::steady_timer retry_;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;
  std::vector<std::thread> threads_;
  int port_ = 0;
};

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
  if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
  if (error == asio::error::address_in_use) {
    return Status(StatusCode::kIo, StrCat("port ", options.port, " of ", options.host,
                                          " is in use; choose another with --port"));
  }
  if (error) {
    return Status(StatusCode::kIo, StrCat("port ", options.port, " of ", options.host,
                                          " cannot be had: ", error.message(),
                                          "; choose another with --host and --port"));
  }
  port_ = acceptor_.local_endpoint(error).port();
  return OkStatus();
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

void HttpServerImpl::Run() {
  Accept();
  for (int i = 0; i < core_->options.http_threads; ++i) {
    threads_.emplace_back([core = core_] { RunNetwork(core->io); });
  }
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
  auto connection = std::make_shared<Connection>(core_, std::move(socket));
  bool full;
  {
    std::unique_lock lock(core_->mutex);
    if (core_->draining) {
      lock.unlock();
      return;
    }
    full = core_->connections.size() >= static_cast<size_t>(core_->options.max_connections);
    core_->connections.emplace(connection.get(), connection);
  }
  connection->Start(full);
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

Result<std::unique_ptr<HttpServer>> HttpServer::Open(const ServerOptions& options,
                                                     Handler handler) {
  auto server = std::make_unique<HttpServerImpl>(options, std::move(handler));
  SLUICE_RETURN_IF_ERROR(server->Bind());
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace sluice::server
