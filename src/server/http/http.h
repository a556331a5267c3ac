// HTTP/1.1 over TCP or TLS: bytes to HttpRequest, HttpReply or an event stream to bytes; limits,
// timeouts and slow readers. Knows nothing of what is served.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "server/http/body_budget.h"
#include "sluice/server.h"

namespace sluice::server {

struct HttpRequest {
  std::string method;            // as sent; GET for HEAD, whose body is left out
  std::string path;              // without the query; escapes are as sent
  std::string query;             // behind the path, without the question mark; as sent
  std::string host;              // with its port, of the target or the header; empty: HTTP/1.0
  std::string origin;            // the header of that name
  std::string content_type;      // the header of that name
  std::string content_encoding;  // the header of that name
  std::string asked_method;      // of a browser's preflight: Access-Control-Request-Method
  std::string asked_headers;     // and Access-Control-Request-Headers
  std::string request_id;        // as RequestIdOf gives it
  std::string reply_fields;      // set by the gate: header lines of the answer, each with its end
  std::string authorization;     // the header of that name
  std::string api_key;           // the header x-api-key
  std::string timeout;           // the header x-request-timeout
  std::string last_event_id;     // the header of that name
  std::string key_salt;  // set by the gate: stands for the API key; empty: none is asked for
  std::string key_name;  // set by the gate: what the key file calls the key; may be empty
  int key_weight = 1;    // set by the gate: of the key's share of the steps
  bool local = false;    // the client is on this machine
  bool admin = false;    // set by the gate: it may load and unload models
  std::string client;    // the key's salt, or else what stands for the address
  std::string body;      // within the limit; read after the gate
  // Of the body, or of what is made of it; ends with the last copy. Null where there is no body.
  std::shared_ptr<BodyLease> lease;
};

struct HttpReply {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;  // beside type and length
  std::string error;  // the sentence of an error's body, for the log
};

// An exchange that is over.
struct ExchangeRecord {
  // Empty for what was no request.
  std::string method, path, request_id;
  std::string address;  // of the client
  int status = 0;       // kClientLeft: the client was gone before the answer was complete
  double ms = 0;        // since its header had come
  std::string note;     // what it said: an error's sentence, or what was noted
  OrderedJson fields;   // what was noted for programs; null: nothing
};
inline constexpr int kClientLeft = 499;

// Runs on a network thread and must be short.
using Observer = std::function<void(const ExchangeRecord&)>;

// One request that awaits its answer: one Reply, or Stream calls and one EndStream. Any thread may
// call; no call blocks. May outlive its connection; calls then have no effect.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void Reply(HttpReply reply) = 0;
  // Of a stream that is no text/event-stream; before its first piece.
  virtual void StreamType(const char* content_type) = 0;
  // Sends a piece of a stream. False when the client is gone or reads too slowly: the
  // stream is then over.
  virtual bool Stream(std::string_view bytes) = 0;
  // `close`: the connection does not serve another request.
  virtual void EndStream(bool close) = 0;
  // What the exchange's record tells of a request that went well, or failed within a stream; an
  // empty `note` leaves what was noted. The object `fields` tells programs more, beside the fields
  // of earlier calls.
  virtual void Note(std::string note, OrderedJson fields) = 0;
  // Runs `call` once, on a thread of the server, if the client goes before the answer is complete.
  virtual void OnDisconnect(std::function<void()> call) = 0;
};

// Becomes true when the client goes before the answer is complete; it has the place of what
// OnDisconnect was given.
std::shared_ptr<const std::atomic<bool>> GoneFlag(Exchange& exchange);

// Sees a request before its body is read. Gives what refuses it, or nothing. Runs on a network
// thread and must be short.
using Gate = std::function<std::optional<HttpReply>(HttpRequest* head)>;

// GET runs on a network thread and must be short; other methods run on a worker.
using Handler = std::function<void(HttpRequest&&, std::shared_ptr<Exchange>)>;

// An interface, so that only http.cc and connection.cc compile Asio.
class HttpServer {
 public:
  virtual ~HttpServer() = default;  // as Stop(0)
  // Has the port, at which clients are refused until Run.
  static Result<std::unique_ptr<HttpServer>> Open(const ServerOptions& options, Gate gate,
                                                  Handler handler, Observer observer);

  // Listens and serves. kIo: another program listens at the port by now.
  virtual Status Run() = 0;
  virtual int port() const = 0;
  // Whether only this machine reaches the address that it listens on.
  virtual bool loopback() const = 0;
  virtual int64_t connections() const = 0;
  // Of the request that a worker has been at for longest, in milliseconds at `now_us` (NowMicros);
  // 0 where none is at any. Those that wait have waited no longer than that for a worker to end.
  virtual int64_t OldestWorkMs(int64_t now_us) const = 0;
  // Answers from here on close their connections.
  virtual void StopAccepting() = 0;
  // Waits up to `seconds` for running exchanges, then closes everything and joins the threads.
  virtual void Stop(double seconds) = 0;
};

}  // namespace sluice::server
