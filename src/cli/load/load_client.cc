#include "cli/load/load_client.h"

// Boost 1.81's Asio uses std::exchange without this.
#include <utility>
// Then Asio and Beast, which no other file of this folder sees.
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <exception>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "cli/load/answer_reader.h"

namespace sluice::load {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr int kConnectSeconds = 10;
constexpr auto kLookTime = std::chrono::milliseconds(100);
constexpr uint64_t kBodyBytesMax = uint64_t{1} << 30;
constexpr size_t kErrorBodyBytesMax = 64u << 10;
constexpr size_t kReplyBytesMax = 64u << 20;

// How an exchange ended: with an answer, whole, or with what went wrong instead.
struct ExchangeEnd {
  std::string failure;  // empty: the answer came whole
  std::string detail;
};

// Takes one answer of a connection. Called on the client's thread.
class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  virtual void OnHead(int status, std::string_view content_type) = 0;
  virtual void OnBytes(std::string_view bytes) = 0;
  // The last call; the connection is free for another exchange.
  virtual void OnEnd(const ExchangeEnd& end) = 0;
};

ExchangeEnd EndOf(error_code error, int timeout_s) {
  if (error == beast::error::timeout) {
    return {"no answer in time", StrCat("no byte came for ", timeout_s, " s")};
  }
  if (error == http::error::end_of_stream || error == http::error::partial_message ||
      error == asio::error::eof || error == asio::error::connection_reset ||
      error == asio::error::broken_pipe) {
    return {"the server closed the connection", ""};
  }
  if (error.category() == http::make_error_code(http::error::bad_chunk).category()) {
    return {"the answer is no HTTP", error.message()};
  }
  return {error.message(), ""};
}

// One connection to the server, which is opened when it is first needed, and again when it was
// closed. Stays where it is while the io_context runs.
class Connection {
 public:
  Connection(asio::io_context& io, const Target& target,
             const tcp::resolver::results_type& addresses)
      : stream_(io), target_(target), addresses_(addresses) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Sends a request and reads its answer. REQUIRES: no other exchange runs.
  void Start(http::verb method, std::string_view path, std::string body, AnswerSink* sink) {
    sink_ = sink;
    request_ = {};
    request_.version(11);
    request_.method(method);
    request_.target(StrCat(target_.url.prefix, path));
    request_.set(http::field::host, target_.url.HostField());
    request_.set(http::field::user_agent, "sluice-bench");
    if (!target_.api_key.empty()) {
      request_.set(http::field::authorization, StrCat("Bearer ", target_.api_key));
    }
    if (method == http::verb::post) request_.set(http::field::content_type, "application/json");
    request_.body() = std::move(body);
    request_.prepare_payload();
    if (open_) {
      Write();
    } else {
      Connect();
    }
  }

 private:
  void Connect() {
    used_ = false;
    buffer_.clear();
    const int seconds = std::min(kConnectSeconds, target_.timeout_s);
    stream_.expires_after(std::chrono::seconds(seconds));
    stream_.async_connect(addresses_, [this, seconds](error_code error, const tcp::endpoint&) {
      if (error) return Fail(EndOf(error, seconds));
      open_ = true;
      error_code ignored;
      stream_.socket().set_option(tcp::no_delay(true), ignored);
      Write();
    });
  }

  void Expire() { stream_.expires_after(std::chrono::seconds(target_.timeout_s)); }

  void Write() {
    Expire();
    http::async_write(stream_, request_, [this](error_code error, size_t) {
      // A server may refuse a request before it has read all of it, and then close: what it said
      // is still to be read.
      if (error == beast::error::timeout) return Fail(EndOf(error, target_.timeout_s));
      ReadHead();
    });
  }

  void ReadHead() {
    parser_.emplace();
    parser_->body_limit(kBodyBytesMax);
    Expire();
    http::async_read_header(stream_, buffer_, *parser_, [this](error_code error, size_t) {
      if (error) return HeadFailed(error);
      const auto type = parser_->get()[http::field::content_type];
      sink_->OnHead(static_cast<int>(parser_->get().result_int()), {type.data(), type.size()});
      ReadPiece();
    });
  }

  // A server closes a connection that was idle for some time, and does not see what was sent just
  // then.
  void HeadFailed(error_code error) {
    const bool closed = error != beast::error::timeout && !parser_->got_some();
    if (closed && used_) {
      Close();
      return Connect();
    }
    Fail(EndOf(error, target_.timeout_s));
  }

  void ReadPiece() {
    if (parser_->is_done()) return End();
    auto& body = parser_->get().body();
    body.data = piece_.data();
    body.size = piece_.size();
    Expire();
    http::async_read_some(stream_, buffer_, *parser_, [this](error_code error, size_t) {
      const size_t bytes = piece_.size() - parser_->get().body().size;
      if (bytes > 0) sink_->OnBytes({piece_.data(), bytes});
      if (error && error != http::error::need_buffer) return Fail(EndOf(error, target_.timeout_s));
      ReadPiece();
    });
  }

  void End() {
    used_ = true;
    if (!parser_->keep_alive()) Close();
    std::exchange(sink_, nullptr)->OnEnd({});
  }

  void Fail(const ExchangeEnd& end) {
    Close();
    std::exchange(sink_, nullptr)->OnEnd(end);
  }

  void Close() {
    open_ = false;
    stream_.close();
  }

  beast::tcp_stream stream_;
  const Target& target_;
  const tcp::resolver::results_type& addresses_;
  http::request<http::string_body> request_;
  beast::flat_buffer buffer_;
  std::optional<http::response_parser<http::buffer_body>> parser_;
  std::array<char, 16 << 10> piece_;
  AnswerSink* sink_ = nullptr;
  bool open_ = false, used_ = false;
};

// Asio throws where the system has no descriptors or memory left.
Status RunThread(asio::io_context& io) {
  try {
    io.run();
    return OkStatus();
  } catch (const std::exception& error) {
    return Status(StatusCode::kIo, StrCat("the client cannot go on: ", error.what()));
  }
}

Result<tcp::resolver::results_type> Resolve(asio::io_context& io, const ServerUrl& url) {
  error_code error;
  tcp::resolver resolver(io);
  auto found = resolver.resolve(url.host, std::to_string(url.port), error);
  if (error || found.empty()) {
    return Status(
        StatusCode::kIo,
        StrCat("the host ", Quote(url.host), " of the server cannot be found: ", error.message()),
        "url");
  }
  return found;
}

// Ends `io` when it is to.
class StopWatch {
 public:
  StopWatch(asio::io_context& io, const Target& target) : io_(io), target_(target), timer_(io) {
    Look();
  }

 private:
  void Look() {
    if (target_.stopped && target_.stopped()) return io_.stop();
    timer_.expires_after(kLookTime);
    timer_.async_wait([this](error_code error) {
      if (!error) Look();
    });
  }

  asio::io_context& io_;
  const Target& target_;
  asio::steady_timer timer_;
};

class LoadRun {
 public:
  explicit LoadRun(const Target& target, const Load& load)
      : target_(target), load_(load), arrival_(io_), look_(io_), outcomes_(load.requests) {}

  Result<std::vector<Outcome>> Run() {
    SLUICE_ASSIGN_OR_RETURN(addresses_, Resolve(io_, target_.url));
    start_us_ = NowMicros();
    if (load_.arrivals_s.empty()) {
      for (int i = 0; i < load_.concurrency; ++i) StartNext();
    } else {
      Arrive();
    }
    Look();
    const StopWatch watch(io_, target_);
    if (load_.requests > 0) SLUICE_RETURN_IF_ERROR(RunThread(io_));
    return std::move(outcomes_);
  }

 private:
  // A connection and the request that it is at.
  class Lane : public AnswerSink {
   public:
    explicit Lane(LoadRun& run) : run_(run), connection_(run.io_, run.target_, run.addresses_) {}

    void Start(size_t index) {
      outcome_ = &run_.outcomes_[index];
      outcome_->end = Outcome::End::kCutOff;
      reader_.emplace(outcome_);
      status_ = 0;
      error_body_.clear();
      std::string body = run_.load_.body(index);
      outcome_->sent_us = NowMicros();
      connection_.Start(http::verb::post, "/v1/completions", std::move(body), this);
    }

    void OnHead(int status, std::string_view content_type) override {
      status_ = status;
      stream_ = content_type.starts_with("text/event-stream");
    }
    void OnBytes(std::string_view bytes) override {
      if (status_ == 200 && stream_) return reader_->Add(bytes, NowMicros());
      error_body_ += bytes.substr(0, kErrorBodyBytesMax - error_body_.size());
    }
    void OnEnd(const ExchangeEnd& end) override {
      if (outcome_->end == Outcome::End::kFailed) {
        // The reader found an error in the stream.
      } else if (status_ != 0 && status_ != 200) {
        Fail(StrCat("HTTP ", status_), ErrorSentence(error_body_));
      } else if (!end.failure.empty()) {
        Fail(end.failure, end.detail);
      } else if (!stream_) {
        Fail("the answer is no stream of completions", ErrorSentence(error_body_));
      } else {
        reader_->Finish(NowMicros());
      }
      run_.OnDone(this);
    }

   private:
    void Fail(std::string failure, std::string detail) {
      outcome_->end = Outcome::End::kFailed;
      outcome_->failure = std::move(failure);
      outcome_->detail = std::move(detail);
    }

    LoadRun& run_;
    Connection connection_;
    Outcome* outcome_ = nullptr;
    std::optional<AnswerReader> reader_;
    int status_ = 0;
    bool stream_ = false;
    std::string error_body_;
  };

  // Sends the next request that is due, if a connection is free for it.
  void StartNext() {
    const bool timed = !load_.arrivals_s.empty();
    if (started_ == (timed ? due_ : load_.requests)) return;
    if (idle_.empty() && static_cast<int>(lanes_.size()) == load_.concurrency) return;
    if (idle_.empty()) {
      lanes_.push_back(std::make_unique<Lane>(*this));
      idle_.push_back(lanes_.back().get());
    }
    Lane* const lane = idle_.back();
    idle_.pop_back();
    const size_t index = started_++;
    if (!timed) outcomes_[index].due_us = NowMicros();
    lane->Start(index);
  }

  // Takes the requests whose time has come, and waits for the next one's.
  void Arrive() {
    while (due_ < load_.requests) {
      const int64_t at_us = start_us_ + static_cast<int64_t>(load_.arrivals_s[due_] * 1e6);
      const int64_t wait_us = at_us - NowMicros();
      if (wait_us > 0) {
        arrival_.expires_after(std::chrono::microseconds(wait_us));
        return arrival_.async_wait([this](error_code error) {
          if (!error) Arrive();
        });
      }
      outcomes_[due_++].due_us = at_us;
      StartNext();
    }
  }

  void OnDone(Lane* lane) {
    idle_.push_back(lane);
    if (++done_ == load_.requests) return io_.stop();
    StartNext();
  }

  void Look() {
    if (load_.progress) load_.progress(done_);
    look_.expires_after(kLookTime);
    look_.async_wait([this](error_code error) {
      if (!error) Look();
    });
  }

  const Target& target_;
  const Load& load_;
  asio::io_context io_{1};  // before what it runs, so that it ends last
  asio::steady_timer arrival_, look_;
  tcp::resolver::results_type addresses_;
  std::vector<Outcome> outcomes_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<Lane*> idle_;  // the one that was used last is the next
  int64_t start_us_ = 0;
  size_t due_ = 0, started_ = 0, done_ = 0;
};

class WholeAnswer : public AnswerSink {
 public:
  explicit WholeAnswer(asio::io_context& io) : io_(io) {}
  void OnHead(int status, std::string_view) override { reply.status = status; }
  void OnBytes(std::string_view bytes) override {
    reply.body += bytes.substr(0, kReplyBytesMax - reply.body.size());
  }
  void OnEnd(const ExchangeEnd& how) override {
    end = how;
    io_.stop();
  }

  Reply reply;
  std::optional<ExchangeEnd> end;

 private:
  asio::io_context& io_;
};

}  // namespace

Result<std::vector<Outcome>> RunLoad(const Target& target, const Load& load) {
  return LoadRun(target, load).Run();
}

Result<Reply> Exchange(const Target& target, std::string_view path, std::string body) {
  asio::io_context io(1);
  SLUICE_ASSIGN_OR_RETURN(const tcp::resolver::results_type addresses, Resolve(io, target.url));
  WholeAnswer answer(io);
  Connection connection(io, target, addresses);
  const http::verb method = body.empty() ? http::verb::get : http::verb::post;
  connection.Start(method, path, std::move(body), &answer);
  const StopWatch watch(io, target);
  SLUICE_RETURN_IF_ERROR(RunThread(io));
  if (!answer.end) return Status(StatusCode::kCancelled, "stopped by the user");
  if (!answer.end->failure.empty()) {
    const std::string& detail = answer.end->detail;
    return Status(StatusCode::kUnavailable,
                  StrCat(answer.end->failure, detail.empty() ? "" : ": ", detail));
  }
  return std::move(answer.reply);
}

}  // namespace sluice::load
