// One connection: reads requests, lets the gate and the handler answer them, writes the answers.
// Lives on its strand; what other threads may touch of it is its outbox, behind a mutex. Only this
// file, connection.cc, http.cc, beast_body.h, wire.h and tls.h see Boost.
#pragma once

// Boost 1.81's Asio uses std::exchange without this.
#include <utility>
// Then Asio and Beast.
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/string_type.hpp>
#include <boost/beast/http/parser.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "server/http/beast_body.h"
#include "server/http/body_budget.h"
#include "server/http/connection_places.h"
#include "server/http/header_rules.h"
#include "server/http/http.h"
#include "server/http/outbox.h"
#include "server/http/running_work.h"
#include "server/http/tls.h"
#include "server/http/wire.h"

namespace sluice::server {

// A client may send the start of its next request before it has its answer; not more than this.
inline constexpr size_t kAheadBytesMax = 64u << 10;
// Connections beyond --max-connections that are told so at a time; more are closed without a word.
inline constexpr size_t kRefusalsMax = 64;
// Bytes of long bodies that are in memory at once, over all connections; see Core.
inline constexpr int64_t kLongBodyBytesMax = 512ll << 20;

class Connection;

// What the connections share. Outlives them.
struct Core {
  Core(const ServerOptions& server_options, Gate request_gate, Handler request_handler,
       Observer request_observer)
      : options(server_options),
        gate(std::move(request_gate)),
        handler(std::move(request_handler)),
        observer(std::move(request_observer)),
        places(static_cast<size_t>(options.max_connections), kRefusalsMax) {}

  const ServerOptions options;
  const Gate gate;
  const Handler handler;
  const Observer observer;
  std::shared_ptr<const Tls> tls;  // set before the first connection; null: none
  // One client may hold half of the long bodies, so that two of the longest always fit.
  BodyBudget bodies{std::max(kLongBodyBytesMax, 4 * int64_t{options.max_body_bytes}),
                    BodyBudget::kSmallBodyBytes* options.max_connections};
  RunningWork work;  // of the workers; outlives them
  boost::asio::io_context io;
  boost::asio::thread_pool workers{static_cast<size_t>(options.http_threads)};
  std::atomic<bool> draining = false;  // set under the mutex

  std::mutex mutex;
  std::condition_variable idle;                                            // no exchange is left
  std::unordered_map<const void*, std::weak_ptr<Connection>> connections;  // guarded by mutex
  ConnectionPlaces places;                                                 // guarded by mutex
  int64_t exchanges = 0;                                                   // guarded by mutex
};

class Connection final : public std::enable_shared_from_this<Connection>, private Outbox::Owner {
 public:
  Connection(std::shared_ptr<Core> core, std::unique_ptr<Wire> wire);
  ~Connection();

  // `full`: the server has as many connections as it may; this one is told so and closed.
  void Start(bool full);
  void CloseSoon() override;
  Outbox& outbox() { return outbox_; }
  // Whom it counts for where no key is asked for.
  const std::string& owner() const { return owner_; }

 private:
  enum class State { kReading, kExchange, kIdle, kLingering, kClosed };

  // Reading; all on the strand.
  void Begin(bool full);
  void OnHandshake(boost::system::error_code error, bool full);
  void ReadHeader();
  void Parse();
  void ReadMore();
  void OnHeader();
  void TakeHead(const HeaderView& header);
  void ReadBody();
  void OnLastChunk(const char* line_end, boost::system::error_code& error);
  void OnBody();
  void OnReadError(boost::system::error_code error);
  void Refuse(int status, const std::string& message);
  void Answer(const ReplyHead& head, HttpReply reply);
  uint64_t BeginExchange(const ReplyHead& head);
  void Dispatch(HttpRequest request, uint64_t serial);
  void Watch();
  void OnWatched(boost::system::error_code error, size_t bytes);
  void CheckLater();
  void Check();

  // Writing and ending; all on the strand, but for FlushSoon.
  void FlushSoon() override;
  void Flush();
  void Write();
  void OnWritten(boost::system::error_code error, size_t bytes);
  void Done();
  void Linger();
  void Abort();
  void Arm(std::chrono::seconds time);
  void Disarm();
  void OnTimeout();
  void EndExchange();
  void OfferPlace();

  const std::shared_ptr<Core> core_;

  // Owned by the strand.
  const std::unique_ptr<Wire> wire_;
  boost::asio::ip::tcp::socket& socket_;  // of the wire
  boost::asio::steady_timer timer_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<BudgetedBody>> parser_;
  HttpRequest request_;                          // what is being read
  ReplyHead reply_head_;                         // of its answer
  ExchangeRecord record_;                        // of it
  std::chrono::steady_clock::time_point began_;  // when its header had come
  const std::string address_;                    // of the client
  const std::string owner_;
  const bool local_;  // the client is on this machine
  State state_ = State::kReading;
  bool body_begun_ = false;  // what is being read is a body
  bool folded_ = false;      // the header or trailer that is being read has a folded line
  bool timed_out_ = false;   // the request that is being read
  uint64_t timer_serial_ = 0;
  boost::asio::steady_timer check_timer_;
  int checks_until_probe_ = 0;
  bool at_end_ = false;    // a read gave the end of what the client sends; Asio gives it once
  bool watching_ = false;  // a read is pending beside the exchange
  bool writing_ = false;
  bool in_exchange_ = false;  // counted in the core
  bool half_closed_ = false;  // the client sends no more; seen by Check
  size_t lingered_bytes_ = 0;
  std::string sending_;
  size_t sent_ = 0;

  // Constant; the parser keeps a reference to it.
  std::function<void(uint64_t size, boost::beast::string_view extensions,
                     boost::system::error_code& error)>
      on_chunk_;

  Outbox outbox_;  // has its own lock
};

}  // namespace sluice::server
