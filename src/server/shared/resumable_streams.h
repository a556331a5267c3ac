// Streams whose clients may come back: an answer that goes on for a while, or to its end, without
// its client, and keeps what it has sent. Each event has an id, STREAM:NUMBER, which a client that
// comes back sends as Last-Event-ID. Several clients may read one stream. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "server/http/http.h"
#include "server/shared/deadlines.h"
#include "sluice/status.h"

namespace sluice::server {

class ResumableStreams {
 public:
  static constexpr size_t kStreamsMax = 128;
  static constexpr size_t kBytesMax = 1 << 20;  // kept of each
  static constexpr int kSecondsMax = 60;
  static constexpr size_t kReadersMax = 16;  // of each, at a time

  // How a stream lives without readers.
  struct Life {
    int seconds = kSecondsMax;  // that it is kept for when it has ended, or nobody reads
    bool background = false;    // it goes on to its end, however long nobody reads
  };

  // `deadlines` outlives all exchanges of it.
  explicit ResumableStreams(Deadlines* deadlines);
  ~ResumableStreams();  // nobody comes back any more
  ResumableStreams(const ResumableStreams&) = delete;
  ResumableStreams& operator=(const ResumableStreams&) = delete;

  // What an answer is to be sent to instead of `client`, its first reader. It belongs to `key`;
  // when it has ended, others that need its place may end its life. `id`: that no other stream has;
  // empty: one is drawn. kResourceExhausted: the key has its share of those that run.
  Result<std::shared_ptr<Exchange>> Open(const std::string& key, Life life,
                                         std::shared_ptr<Exchange> client, std::string id = {});
  // Sends what came behind an event to `client`, and what comes, beside whoever else reads; or says
  // why not.
  void Resume(const std::string& key, const std::string& last_event_id,
              const std::shared_ptr<Exchange>& client);
  // The same behind the first `number` events of the stream `id`. Where it is not ok, nothing is
  // sent. kNotFound: it does not go on from there; kResourceExhausted: too many read it.
  Status ResumeBehind(const std::string& key, const std::string& id, uint64_t number,
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
