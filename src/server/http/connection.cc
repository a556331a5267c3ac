#include "server/http/connection.h"

#include <poll.h>

#include <boost/asio/dispatch.hpp>
#include <boost/beast/core/read_size.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>

#include "base/clock.h"
#include "base/str_cat.h"
#include "server/http/errors.h"
#include "server/http/gzip_body.h"
#include "server/http/header_rules.h"
#include "server/http/request_id.h"
#include "server/http/target.h"

namespace sluice::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;

// A client that still sends after its refusal is listened to for this long, so that it reads it.
constexpr auto kLingerTime = std::chrono::seconds(5);
// A handshake of TLS takes two turns between the machines.
constexpr auto kHandshakeTime = std::chrono::seconds(10);
constexpr size_t kReadBytes = 4096;
constexpr size_t kRequestReadBytes = 64u << 10;
// How often a client is looked at whose end no read shows, and after how many looks it is probed.
constexpr auto kCheckTime = std::chrono::milliseconds(100);
constexpr int kChecksPerProbe = 50;

HeaderView ViewOf(const http::request<BudgetedBody>& message) {
  const auto view = [](auto text) { return std::string_view(text.data(), text.size()); };
  HeaderView header;
  header.method = view(message.method_string());
  header.target = view(message.target());
  header.http_1_0 = message.version() < 11;
  for (const auto& field : message) {
    header.fields.push_back({view(field.name_string()), view(field.value())});
  }
  return header;
}

std::string OwnerOf(const tcp::socket& socket) {
  error_code ignored;
  const asio::ip::address address = socket.remote_endpoint(ignored).address();
  return OwnerOfAddress(
      address.is_v6() ? address.to_v6().to_bytes()
                      : asio::ip::make_address_v6(asio::ip::v4_mapped, address.to_v4()).to_bytes());
}

std::string AddressOf(const tcp::socket& socket) {
  error_code error;
  const tcp::endpoint endpoint = socket.remote_endpoint(error);
  return error ? std::string() : endpoint.address().to_string();
}

bool IsLocal(const tcp::socket& socket) {
  error_code error;
  const asio::ip::address address = socket.remote_endpoint(error).address();
  if (error) return false;
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address.is_loopback();
  return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
}

// Keeps the budget of the lease, too, as the last copy may end behind the server.
std::shared_ptr<BodyLease> Shared(std::shared_ptr<Core> core, BodyLease lease) {
  auto both = std::make_shared<std::pair<std::shared_ptr<Core>, BodyLease>>(std::move(core),
                                                                            std::move(lease));
  BodyLease* const part = &both->second;
  return {std::move(both), part};
}

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
  void StreamType(const char* content_type) override {
    connection_->outbox().StreamType(serial_, content_type);
  }
  bool Stream(std::string_view bytes) override {
    return connection_->outbox().Stream(serial_, bytes);
  }
  void EndStream(bool close) override { connection_->outbox().EndStream(serial_, close); }
  void Note(std::string note, OrderedJson fields) override {
    connection_->outbox().Note(serial_, std::move(note), std::move(fields));
  }
  void OnDisconnect(std::function<void()> call) override {
    connection_->outbox().OnDisconnect(serial_, std::move(call));
  }

 private:
  const std::shared_ptr<Connection> connection_;
  const uint64_t serial_;
};

}  // namespace

Connection::Connection(std::shared_ptr<Core> core, std::unique_ptr<Wire> wire)
    : core_(std::move(core)),
      wire_(std::move(wire)),
      socket_(wire_->socket()),
      timer_(socket_.get_executor()),
      buffer_(core_->options.max_header_bytes + kAheadBytesMax),
      address_(AddressOf(socket_)),
      owner_(OwnerOf(socket_)),
      local_(IsLocal(socket_)),
      check_timer_(socket_.get_executor()),
      on_chunk_([this](uint64_t size, auto extensions, error_code& error) {
        if (size == 0) OnLastChunk(extensions.data() + extensions.size(), error);
      }),
      outbox_(core_->options.stream_buffer_bytes, core_->draining, *this) {}

Connection::~Connection() {
  std::lock_guard lock(core_->mutex);
  core_->connections.erase(this);
  core_->places.Leave(this);
}

void Connection::CloseSoon() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Abort(); });
}

void Connection::FlushSoon() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Flush(); });
}

void Connection::Start(bool full) {
  asio::dispatch(socket_.get_executor(), [self = shared_from_this(), full] {
    error_code ignored;
    self->socket_.set_option(tcp::no_delay(true), ignored);
    const bool shakes =
        self->wire_->Handshake([self, full](error_code error) { self->OnHandshake(error, full); });
    if (!shakes) return self->Begin(full);
    self->Arm(std::min(kHandshakeTime, std::chrono::seconds(self->core_->options.idle_seconds)));
  });
}

void Connection::OnHandshake(error_code error, bool full) {
  if (state_ == State::kClosed) return;
  Disarm();
  if (error || timed_out_) return Abort();
  Begin(full);
}

void Connection::Begin(bool full) {
  if (!full) return ReadHeader();
  Refuse(503, "the server has as many connections as it may (--max-connections)");
}

void Connection::ReadHeader() {
  state_ = State::kReading;
  record_ = {};
  reply_head_ = {};
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(core_->options.max_header_bytes));
  parser_->body_limit(boost::none);  // OnHeader sets it, behind the key
  parser_->on_chunk_header(on_chunk_);
  body_begun_ = folded_ = timed_out_ = false;
  Arm(std::chrono::seconds(core_->options.idle_seconds));
  Parse();
}

// Beast's own loop around its parser would go on reading after a timeout that comes between two
// reads, and would join folded lines unseen.
void Connection::Parse() {
  while (body_begun_ ? !parser_->is_done() : !parser_->is_header_done()) {
    if (timed_out_) return OnReadError(asio::error::timed_out);
    if (buffer_.size() == 0) return ReadMore();
    error_code error;
    const size_t used = parser_->put(buffer_.data(), error);
    // The parser takes a field whole, with all lines that it has.
    const std::string_view taken(static_cast<const char*>(buffer_.data().data()), used);
    folded_ = folded_ || (!body_begun_ && HasFoldedLine(taken));
    buffer_.consume(used);
    if (error == http::error::need_more) return ReadMore();
    if (error) return OnReadError(error);
  }
  if (body_begun_) return OnBody();
  OnHeader();
}

void Connection::ReadMore() {
  if (at_end_) return OnReadError(asio::error::eof);
  const size_t bytes = boost::beast::read_size(buffer_, kRequestReadBytes);
  if (bytes == 0) return OnReadError(http::error::buffer_overflow);
  wire_->ReadSome(buffer_.prepare(bytes),
                  [self = shared_from_this()](error_code error, size_t arrived) {
                    if (self->state_ == State::kClosed) return;
                    self->buffer_.commit(arrived);
                    if (error && !self->timed_out_) return self->OnReadError(error);
                    self->Parse();
                  });
}

void Connection::OnHeader() {
  began_ = std::chrono::steady_clock::now();
  OfferPlace();  // anew: it has sent a header, unlike those who wait as long for one
  HeaderView header = ViewOf(parser_->get());
  header.folded = folded_;
  if (const auto fault = CheckHeader(header)) return Refuse(fault->status, fault->message);
  TakeHead(header);
  std::optional<HttpReply> refusal = core_->gate(&request_);
  reply_head_.fields += request_.reply_fields;
  if (refusal) {
    // A body that nobody reads stands before the next request.
    reply_head_.keep_alive = reply_head_.keep_alive && parser_->is_done();
    return Answer(reply_head_, std::move(*refusal));
  }
  const auto body_bytes_max = static_cast<uint64_t>(core_->options.max_body_bytes);
  if (parser_->content_length().value_or(0) > body_bytes_max) {
    return OnReadError(http::make_error_code(http::error::body_limit));
  }
  parser_->body_limit(body_bytes_max);
  MeteredBody& body = parser_->get().body();
  request_.client = request_.key_salt.empty() ? owner_ : request_.key_salt;
  body.lease = BodyLease(&core_->bodies, request_.client);
  body.bytes_most = body_bytes_max;
  body.kept = request_.method != "GET";
  const bool asks = boost::beast::iequals(parser_->get()[http::field::expect], "100-continue");
  if (!asks || parser_->is_done()) return ReadBody();
  sending_ = "HTTP/1.1 100 Continue\r\n\r\n";
  wire_->WriteAll(asio::buffer(sending_), [self = shared_from_this()](error_code failed, size_t) {
    if (self->state_ == State::kClosed) return;
    self->sending_.clear();
    if (failed && !self->timed_out_) return self->Abort();
    self->ReadBody();
  });
}

// What is used of the header, which ends here: the fields behind a chunked body are dropped.
void Connection::TakeHead(const HeaderView& header) {
  const auto value = [&header](std::string_view name) {
    return std::string(ValueOf(header, name));
  };
  const bool head = header.method == "HEAD";
  request_ = {};
  request_.method = head ? "GET" : std::string(header.method);
  request_.path = PathOf(header.target);
  request_.query = QueryOf(header.target);
  request_.local = local_;
  request_.host = AuthorityOf(header.target).value_or(ValueOf(header, "host"));
  request_.origin = value("origin");
  request_.content_type = value("content-type");
  request_.content_encoding = value("content-encoding");
  request_.asked_method = value("access-control-request-method");
  request_.asked_headers = value("access-control-request-headers");
  request_.request_id = RequestIdOf(value("x-request-id"));
  record_.method = header.method;
  record_.path = request_.path;
  record_.request_id = request_.request_id;
  request_.authorization = value("authorization");
  request_.api_key = value("x-api-key");
  request_.timeout = value("x-request-timeout");
  request_.last_event_id = value("last-event-id");
  reply_head_ = {.keep_alive = parser_->keep_alive(),
                 .http_1_0 = header.http_1_0,
                 .head = head,
                 .fields = StrCat("X-Request-Id: ", request_.request_id, "\r\n")};
}

void Connection::ReadBody() {
  body_begun_ = true;
  parser_->eager(true);  // takes of the body what has come
  Parse();
}

// The parser has seen all of the fields behind the last chunk, whose line ends at `line_end`, and
// would join folded ones.
void Connection::OnLastChunk(const char* line_end, error_code& error) {
  const auto* const begin = static_cast<const char*>(buffer_.data().data());
  const std::string_view rest(line_end, static_cast<size_t>(begin + buffer_.size() - line_end));
  folded_ = HasFoldedLine(rest.substr(0, rest.find("\r\n\r\n")));
  if (folded_) error = http::error::bad_value;
}

void Connection::OnBody() {
  Disarm();
  {
    std::lock_guard lock(core_->mutex);
    if (!core_->places.Serve(this)) return Abort();
  }
  MeteredBody body = std::move(parser_->get().body());
  parser_.reset();
  request_.body = std::move(body.text);
  request_.lease = Shared(core_, std::move(body.lease));
  const uint64_t serial = BeginExchange(reply_head_);
  Watch();
  Dispatch(std::move(request_), serial);
}

void Connection::OnReadError(error_code error) {
  const bool started = parser_->got_some() || buffer_.size() > 0;
  if (timed_out_ && started) return Refuse(408, "the request did not arrive in time");
  if (folded_ && body_begun_) {
    return Refuse(400,
                  "a line behind the last chunk begins with a space or a tab; send each field in "
                  "one line");
  }
  if (error == http::error::buffer_overflow && body_begun_) {
    return Refuse(
        431, StrCat("a chunk's extensions, or a field behind the last chunk, are too long; "
                    "the limit is ",
                    buffer_.max_size(), " bytes (--max-header-bytes and ", kAheadBytesMax, ")"));
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return Refuse(431, StrCat("the header is too long; the limit is ",
                              core_->options.max_header_bytes, " bytes (--max-header-bytes)"));
  }
  if (error == http::error::body_limit) {
    return Refuse(413, StrCat("the body is too long; the limit is ", core_->options.max_body_bytes,
                              " bytes (--max-body-bytes)"));
  }
  if (error == kNoBudget) {
    return Refuse(429,
                  "the bodies that this client sends have taken its share of the memory; try again "
                  "when some are answered");
  }
  if (error.category() == http::make_error_code(http::error::bad_version).category()) {
    return Refuse(400, StrCat("this is not HTTP: ", error.message()));
  }
  Abort();
}

// Answers a request that did not become one, with what its header has asked for if that was read,
// and closes.
void Connection::Refuse(int status, const std::string& message) {
  reply_head_.keep_alive = false;
  Answer(reply_head_, HttpErrorReply(status, message));
}

// Answers instead of the handler.
void Connection::Answer(const ReplyHead& head, HttpReply reply) {
  Disarm();
  parser_.reset();  // with what it has of a body
  const uint64_t serial = BeginExchange(head);
  outbox_.Reply(serial, std::move(reply));
}

uint64_t Connection::BeginExchange(const ReplyHead& head) {
  state_ = State::kExchange;
  in_exchange_ = true;
  if (record_.method.empty()) began_ = std::chrono::steady_clock::now();
  checks_until_probe_ = half_closed_ ? 0 : kChecksPerProbe;
  {
    std::lock_guard lock(core_->mutex);
    ++core_->exchanges;
  }
  return outbox_.Begin(head);
}

void Connection::Dispatch(HttpRequest request, uint64_t serial) {
  auto exchange = std::make_shared<ConnectionExchange>(shared_from_this(), serial);
  const bool quick = request.method == "GET";
  auto run = [core = core_, exchange, request = std::move(request)]() mutable {
    const auto bytes_max = static_cast<size_t>(core->options.max_body_bytes);
    if (auto refusal = InflateBody(&request, bytes_max)) {
      exchange->Reply(std::move(*refusal));
    } else {
      core->handler(std::move(request), exchange);
    }
  };
  if (quick) {
    run();
  } else {
    asio::post(core_->workers, [core = core_, run = std::move(run)]() mutable {
      const RunningWork::Piece piece(&core->work, NowMicros());
      run();
    });
  }
}

// Keeps a read pending while a request runs: it is how the end of the client is noticed. A client
// that has sent too much ahead is not read from until its answer is out.
void Connection::Watch() {
  if (at_end_) return CheckLater();
  if (buffer_.size() + kReadBytes > kAheadBytesMax) return CheckLater();
  watching_ = true;
  wire_->ReadSome(buffer_.prepare(kReadBytes),
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
  at_end_ = error == asio::error::eof;
  if (at_end_ && state_ == State::kExchange) return CheckLater();
  const bool ahead = state_ == State::kIdle && buffer_.size() > 0;  // requests that came before
  const bool cut = error == asio::error::operation_aborted;
  if (error && !(ahead && (cut || at_end_))) return Abort();
  buffer_.commit(bytes);
  if (state_ == State::kIdle) return ReadHeader();
  Watch();
}

void Connection::CheckLater() {
  check_timer_.expires_after(kCheckTime);
  check_timer_.async_wait([self = shared_from_this()](error_code error) {
    if (!error) self->Check();
  });
}

// Where a read cannot show that the client is gone, because the client has ended its side or has
// sent too much ahead. A client that closed looks like one that only ended its side (nc -N) until
// something is sent to it; then the system knows of a reset.
void Connection::Check() {
  if (state_ != State::kExchange || watching_) return;
  pollfd client{socket_.native_handle(), POLLRDHUP, 0};
  if (poll(&client, 1, 0) < 0) client.revents = 0;  // interrupted; the next check looks again
  if ((client.revents & (POLLERR | POLLHUP)) != 0) return Abort();
  const bool ended = (client.revents & POLLRDHUP) != 0;
  if (ended && !std::exchange(half_closed_, true)) checks_until_probe_ = 0;
  if (--checks_until_probe_ < 0) {
    checks_until_probe_ = kChecksPerProbe;
    if (!outbox_.SendInterim() && half_closed_) return Abort();
  }
  CheckLater();
}

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
  wire_->WriteSome(asio::buffer(sending_.data() + sent_, sending_.size() - sent_),
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
  OfferPlace();
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
  wire_->EndSending([self = shared_from_this()] {});
  if (at_end_) return Abort();
  Arm(kLingerTime);
  buffer_.consume(buffer_.size());
  if (!watching_) Watch();
}

void Connection::EndExchange() {
  if (!std::exchange(in_exchange_, false)) return;
  record_.address = address_;
  record_.ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began_).count();
  outbox_.Tell(&record_);
  if (core_->observer) core_->observer(record_);
  std::lock_guard lock(core_->mutex);
  if (--core_->exchanges == 0) core_->idle.notify_all();
}

// From here on a newcomer may take its place, until its next request is complete.
void Connection::OfferPlace() {
  std::lock_guard lock(core_->mutex);
  core_->places.Wait(this);
}

void Connection::Abort() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  const std::function<void()> call = outbox_.Close();
  error_code ignored;
  Disarm();
  check_timer_.cancel();
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
  // Parse sees it, even if there is nothing to cancel because the handler is on its way.
  timed_out_ = true;
  error_code ignored;
  socket_.cancel(ignored);
}

}  // namespace sluice::server
