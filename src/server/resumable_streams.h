// Streams whose clients may come back: an answer that goes on for a while without its client, and
// keeps what it has sent. Each event has an id, STREAM:NUMBER, which a client that comes back sends
// as Last-Event-ID. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "server/deadlines.h"
#include "server/http/http.h"
#include "sluice/status.h"

namespace sluice::server {

class ResumableStreams {
 public:
  static constexpr size_t kStreamsMax = 128;
  static constexpr size_t kBytesMax = 1 << 20;  // kept of each
  static constexpr int kSecondsMax = 60;

  // `deadlines` outlives all exchanges of it.
  explicit ResumableStreams(Deadlines* deadlines);
  ~ResumableStreams();  // nobody comes back any more
  ResumableStreams(const ResumableStreams&) = delete;
  ResumableStreams& operator=(const ResumableStreams&) = delete;

  // What an answer is to be sent to instead of `client`. It belongs to `key`, and goes on for so
  // many seconds when its client has left; as long it is kept when it has ended, unless others need
  // its place. `id`: that no other stream has; empty: one is drawn. kResourceExhausted: the key has
  // its share of those that run.
  Result<std::shared_ptr<Exchange>> Open(const std::string& key, int seconds,
                                         std::shared_ptr<Exchange> client, std::string id = {});
  // Sends what came behind an event to `client`, and what comes; or says why not.
  void Resume(const std::string& key, const std::string& last_event_id,
              const std::shared_ptr<Exchange>& client);
  // The same behind the first `number` events of the stream `id`; false: it does not go on from
  // there, and nothing is sent.
  bool ResumeBehind(const std::string& key, const std::string& id, uint64_t number,
                    const std::shared_ptr<Exchange>& client);
  // Forgets a stream of the key. REQUIRES: it has ended, if it is there.
  void Forget(const std::string& key, const std::string& id) const;

 private:
  class Answer;
  struct Registry;

  Deadlines* const deadlines_;
  const std::shared_ptr<Registry> registry_;
};

}  // namespace sluice::server
