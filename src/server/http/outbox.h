// What waits to be sent on one connection, and the exchange that fills it. The connection begins an
// exchange and takes bytes out, on its strand; the exchange's calls come from any thread and name
// it by its serial, so that one that is over changes nothing.
//
// Invariants: (1) nothing enters after the answer is complete or the client is gone; (2) what waits
// of a stream is at most the limit, one piece, and the largest piece before it; (3) the disconnect
// call runs at most once, and never after the answer was complete.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "server/http/http.h"
#include "server/http/reply_bytes.h"

namespace sluice::server {

class Outbox {
 public:
  // Its connection. Both are called with the outbox locked and must only post.
  class Owner {
   public:
    virtual void FlushSoon() = 0;
    virtual void CloseSoon() = 0;

   protected:
    ~Owner() = default;
  };

  // `draining`: answers close their connections. Both references must outlive the outbox.
  Outbox(size_t waiting_bytes_max, const std::atomic<bool>& draining, Owner& owner)
      : waiting_bytes_max_(waiting_bytes_max), draining_(draining), owner_(owner) {}

  // --- The connection's side.
  // Gives the new exchange's serial.
  uint64_t Begin(const ReplyHead& head);
  // Moves what waits into `bytes`; true when it is the end of the answer.
  bool Take(std::string* bytes);
  // That many of the taken bytes are out.
  void Sent(size_t bytes);
  // The answer is out. Gives whether the connection may serve another request.
  bool End();
  // Sees to it that something is sent to the client, which a client that is gone answers with a
  // reset: an interim answer, unless the answer itself has begun. False when that cannot be, for
  // an HTTP/1.0 client, and somebody would mind its end.
  bool SendInterim();
  // What the answer was, of an exchange that is over.
  void Tell(ExchangeRecord* record);
  // The connection is closed. Gives what is to run for it, or an empty function.
  std::function<void()> Close();

  // --- The exchange's side; see Exchange.
  void Reply(uint64_t serial, HttpReply reply);
  void StreamType(uint64_t serial, const char* content_type);
  bool Stream(uint64_t serial, std::string_view bytes);
  void EndStream(uint64_t serial, bool close);
  void Note(uint64_t serial, std::string note, OrderedJson fields);
  void OnDisconnect(uint64_t serial, std::function<void()> call);

 private:
  // REQUIRES for both: mutex_ is held.
  void Wake();
  // Sends the head of the stream, unless it is out.
  void BeginStream();

  const size_t waiting_bytes_max_;
  const std::atomic<bool>& draining_;
  Owner& owner_;

  std::mutex mutex_;  // guards the rest
  uint64_t serial_ = 0;
  ReplyHead head_;
  int status_ = 0;  // of the answer
  std::string note_;
  OrderedJson fields_;
  bool open_ = false;  // the exchange may write
  bool streaming_ = false;
  bool finished_ = false;  // the answer is complete
  bool gone_ = false;      // the client is
  bool woken_ = false;     // a flush is on its way
  size_t unsent_ = 0;      // bytes that wait, here and taken
  size_t largest_piece_ = 0;
  std::string waiting_;
  std::function<void()> on_disconnect_;
};

}  // namespace sluice::server
