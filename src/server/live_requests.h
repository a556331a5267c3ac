// What becomes of the requests of the moment, as a stream of events for those who watch: the page's
// live view. Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "server/http/http.h"
#include "server/shared/deadlines.h"

namespace sluice::server {

inline constexpr const char* kLivePath = "/v1/requests/events";

// Who watches.
struct Watcher {
  std::string key;   // stands for the API key
  bool all = false;  // sees the requests of all keys, and errors
};

class LiveRequests {
 public:
  static constexpr size_t kWatchersMax = 16;

  // One line of JSON that tells a watcher how things stand; called by a thread at a time.
  using Show = std::function<std::string(const Watcher&)>;

  // `deadlines` outlives this.
  LiveRequests(Deadlines* deadlines, Show show);
  ~LiveRequests();  // as End
  LiveRequests(const LiveRequests&) = delete;
  LiveRequests& operator=(const LiveRequests&) = delete;

  // Sends {"now_ms": milliseconds of the clock of NowMicros, "live": what Show says} at once, and
  // again where that has changed, which is looked at twice a second, until the client leaves.
  // Answers 429 when too many of the key watch, 503 behind End.
  void Watch(Watcher watcher, std::shared_ptr<Exchange> exchange);
  // Ends all streams; Show is not called any more.
  void End();

 private:
  struct State;
  static void Tick(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;  // outlives this in a call that is due
};

}  // namespace sluice::server
