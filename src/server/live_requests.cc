#include "server/live_requests.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "base/str_cat.h"
#include "server/http/errors.h"
#include "server/http/sse.h"
#include "server/shared/key_share.h"

namespace sluice::server {
namespace {

constexpr int64_t kTickUs = 500'000;
// A client that has left is noticed by what is sent to it, which is a comment where all stays as
// it is.
constexpr int kQuietTicksMax = 10;
constexpr const char* kComment = ":\n\n";

}  // namespace

struct LiveRequests::State {
  struct Stream {
    Watcher watcher;
    std::shared_ptr<Exchange> exchange;
    std::string sent;  // last
    int quiet_ticks = 0;
  };

  // False: the client is gone.
  bool Send(Stream* stream) {
    std::string now = show(stream->watcher);
    if (now != stream->sent) {
      stream->sent = std::move(now);
      stream->quiet_ticks = 0;
      return stream->exchange->Stream(
          SseEvent(StrCat("{\"now_ms\":", NowMicros() / 1000, ",\"live\":", stream->sent, "}")));
    }
    if (++stream->quiet_ticks < kQuietTicksMax) return true;
    stream->quiet_ticks = 0;
    return stream->exchange->Stream(kComment);
  }

  Deadlines* const deadlines;
  const Show show;
  std::mutex mutex;  // guards the rest
  std::list<Stream> streams;
  std::unique_ptr<Deadlines::Entry> next;  // the next tick; null: nobody watches
  bool ended = false;
};

LiveRequests::LiveRequests(Deadlines* deadlines, Show show)
    : state_(new State{.deadlines = deadlines, .show = std::move(show)}) {}

LiveRequests::~LiveRequests() { End(); }

void LiveRequests::Watch(Watcher watcher, std::shared_ptr<Exchange> exchange) {
  std::lock_guard lock(state_->mutex);
  if (state_->ended) {
    return exchange->Reply(HttpErrorReply(503, "the server is shutting down; try another"));
  }
  const auto& streams = state_->streams;
  const size_t own = std::count_if(streams.begin(), streams.end(), [&](const State::Stream& one) {
    return one.watcher.key == watcher.key;
  });
  if (!MayTakePlace(watcher.key, own, streams.size(), kWatchersMax)) {
    return exchange->Reply(
        HttpErrorReply(429, StrCat("API keys may have ", kWatchersMax,
                                   " clients that watch the requests, and this one has its share (",
                                   own, "); try again when one has left")));
  }
  State::Stream stream{std::move(watcher), std::move(exchange)};
  if (!state_->Send(&stream)) return;
  state_->streams.push_back(std::move(stream));
  if (state_->next == nullptr) {
    state_->next = state_->deadlines->At(NowMicros() + kTickUs, [state = state_] { Tick(state); });
  }
}

void LiveRequests::Tick(const std::shared_ptr<State>& state) {
  std::lock_guard lock(state->mutex);
  if (state->ended) return;
  state->streams.remove_if([&](State::Stream& stream) { return !state->Send(&stream); });
  state->next = state->streams.empty()
                    ? nullptr
                    : state->deadlines->At(NowMicros() + kTickUs, [state] { Tick(state); });
}

void LiveRequests::End() {
  std::lock_guard lock(state_->mutex);
  state_->ended = true;
  state_->next = nullptr;
  for (State::Stream& stream : state_->streams) stream.exchange->EndStream(true);
  state_->streams.clear();
}

}  // namespace sluice::server
