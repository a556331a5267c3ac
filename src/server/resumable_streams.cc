#include "server/resumable_streams.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/parse_number.h"
#include "base/str_cat.h"
#include "server/http/errors.h"
#include "server/key_share.h"
#include "server/owned_store.h"

namespace sluice::server {

// Outlives the streams' owner where exchanges do.
struct ResumableStreams::Registry {
  // REQUIRES for both: mutex is held.
  // Of the key, or of all, that have not ended.
  size_t Running(const std::string* key) const;
  // Takes out the stream that ended first, of the key that has most that have ended; null: none
  // has.
  std::shared_ptr<Answer> TakeEnded();

  std::atomic<uint64_t> ended = 0;  // how many
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Answer>> streams;  // by id; guarded by mutex
};

// One answer, between what makes it and whoever reads it.
class ResumableStreams::Answer : public Exchange, public std::enable_shared_from_this<Answer> {
 public:
  Answer(std::shared_ptr<Registry> registry, Deadlines* deadlines, std::string id, std::string key,
         int seconds)
      : registry_(std::move(registry)),
        deadlines_(deadlines),
        id_(id.empty() ? DrawPrivateId("stream_") : std::move(id)),
        key_(std::move(key)),
        seconds_(seconds) {}

  const std::string& id() const { return id_; }
  const std::string& key() const { return key_; }
  // How many had ended with it; 0: it goes on. Any thread.
  uint64_t ended_as() const { return ended_as_; }

  // Of what makes the answer.
  void Reply(HttpReply reply) override;
  void StreamType(const char*) override {}  // of a stream that has no events to come back to
  bool Stream(std::string_view bytes) override;
  void EndStream(bool close) override;
  void Note(std::string note, OrderedJson fields) override;
  void OnDisconnect(std::function<void()> call) override;

  // Gives the answer to a reader, from behind event `number` on. False: what came there is gone.
  bool Attach(uint64_t number, std::shared_ptr<Exchange> client);

 private:
  struct Event {
    uint64_t number;
    std::string bytes;
  };

  void OnClientGone(uint64_t reader);
  // Its time is over: what makes it stops, and nobody finds it.
  void GiveUp();
  // REQUIRES: mutex_ is held.
  void EndLater();
  void Send(const std::string& bytes);

  const std::shared_ptr<Registry> registry_;
  Deadlines* const deadlines_;
  const std::string id_;
  const std::string key_;
  const int seconds_;
  std::atomic<uint64_t> ended_as_ = 0;

  std::mutex mutex_;                  // guards the rest
  std::shared_ptr<Exchange> client_;  // null: nobody reads
  uint64_t reader_ = 0;               // how many there have been
  std::deque<Event> events_;          // that are kept, oldest first
  size_t kept_bytes_ = 0;
  uint64_t events_sent_ = 0;
  bool ended_ = false, close_ = false, over_ = false;
  std::function<void()> give_up_;
  std::unique_ptr<Deadlines::Entry> end_;  // set while nobody reads, and when it has ended
};

size_t ResumableStreams::Registry::Running(const std::string* key) const {
  return std::count_if(streams.begin(), streams.end(), [key](const auto& entry) {
    return entry.second->ended_as() == 0 && (key == nullptr || entry.second->key() == *key);
  });
}

std::shared_ptr<ResumableStreams::Answer> ResumableStreams::Registry::TakeEnded() {
  std::map<std::string, size_t> counts;  // of each key
  for (const auto& [id, stream] : streams) {
    if (stream->ended_as() > 0) ++counts[stream->key()];
  }
  const auto rank = [&counts](const Answer& stream) {
    return std::pair(counts[stream.key()], ~stream.ended_as());
  };
  auto first = streams.end();
  for (auto it = streams.begin(); it != streams.end(); ++it) {
    if (it->second->ended_as() == 0) continue;
    if (first == streams.end() || rank(*it->second) > rank(*first->second)) first = it;
  }
  if (first == streams.end()) return nullptr;
  return std::move(streams.extract(first).mapped());
}

void ResumableStreams::Answer::Reply(HttpReply reply) {
  std::unique_lock lock(mutex_);
  const auto client = std::exchange(client_, nullptr);
  give_up_ = nullptr;
  ended_ = true;
  lock.unlock();
  if (client != nullptr) client->Reply(std::move(reply));
  GiveUp();
}

// Each event ends with an empty line.
bool ResumableStreams::Answer::Stream(std::string_view bytes) {
  std::lock_guard lock(mutex_);
  if (over_) return false;
  std::string sent;
  while (!bytes.empty()) {
    const size_t end = bytes.find("\n\n");
    const size_t size = end == std::string_view::npos ? bytes.size() : end + 2;
    Event event{++events_sent_,
                StrCat("id: ", id_, ":", events_sent_, "\n", bytes.substr(0, size))};
    bytes.remove_prefix(size);
    sent += event.bytes;
    kept_bytes_ += event.bytes.size();
    events_.push_back(std::move(event));
  }
  while (kept_bytes_ > kBytesMax) {
    kept_bytes_ -= events_.front().bytes.size();
    events_.pop_front();
  }
  Send(sent);
  return true;
}

void ResumableStreams::Answer::Send(const std::string& bytes) {
  if (client_ == nullptr || client_->Stream(bytes)) return;
  client_ = nullptr;
  EndLater();
}

void ResumableStreams::Answer::EndStream(bool close) {
  std::lock_guard lock(mutex_);
  ended_ = true;
  ended_as_ = ++registry_->ended;
  close_ = close;
  if (client_ != nullptr) client_->EndStream(close);
  client_ = nullptr;
  give_up_ = nullptr;
  EndLater();
}

void ResumableStreams::Answer::Note(std::string note, OrderedJson fields) {
  std::lock_guard lock(mutex_);
  if (client_ != nullptr) client_->Note(std::move(note), std::move(fields));
}

void ResumableStreams::Answer::OnDisconnect(std::function<void()> call) {
  std::lock_guard lock(mutex_);
  give_up_ = std::move(call);
}

void ResumableStreams::Answer::EndLater() {
  end_ = deadlines_->At(NowMicros() + int64_t{seconds_} * 1'000'000, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->GiveUp();
  });
}

void ResumableStreams::Answer::OnClientGone(uint64_t reader) {
  std::lock_guard lock(mutex_);
  if (reader != reader_ || client_ == nullptr) return;
  client_ = nullptr;
  EndLater();
}

void ResumableStreams::Answer::GiveUp() {
  std::function<void()> give_up;
  {
    std::lock_guard lock(mutex_);
    if (client_ != nullptr && !ended_) return;  // a reader came at the last moment
    over_ = true;
    give_up = std::exchange(give_up_, nullptr);
  }
  std::shared_ptr<Exchange> self;  // ends without the lock
  {
    std::lock_guard lock(registry_->mutex);
    const auto found = registry_->streams.find(id_);
    if (found != registry_->streams.end()) {
      self = std::move(found->second);
      registry_->streams.erase(found);
    }
  }
  if (give_up) give_up();
}

bool ResumableStreams::Answer::Attach(uint64_t number, std::shared_ptr<Exchange> client) {
  uint64_t reader = 0;
  {
    std::lock_guard lock(mutex_);
    const uint64_t first = events_.empty() ? events_sent_ + 1 : events_.front().number;
    if (over_ || number > events_sent_ || number + 1 < first) return false;
    // Who read before is left where it is.
    if (client_ != nullptr) client_->EndStream(/*close=*/true);
    client_ = client;
    reader = ++reader_;
    if (!ended_) end_.reset();
    std::string missed;
    for (const Event& event : events_) {
      if (event.number > number) missed += event.bytes;
    }
    if (!missed.empty()) Send(missed);
    if (ended_) {
      client->EndStream(close_);
      client_ = nullptr;
    }
  }
  client->OnDisconnect([weak = weak_from_this(), reader] {
    if (const auto self = weak.lock()) self->OnClientGone(reader);
  });
  return true;
}

ResumableStreams::ResumableStreams(Deadlines* deadlines)
    : deadlines_(deadlines), registry_(std::make_shared<Registry>()) {}

ResumableStreams::~ResumableStreams() {
  std::map<std::string, std::shared_ptr<Answer>> streams;  // end without the lock
  std::lock_guard lock(registry_->mutex);
  streams.swap(registry_->streams);
}

Result<std::shared_ptr<Exchange>> ResumableStreams::Open(const std::string& key, int seconds,
                                                         std::shared_ptr<Exchange> client,
                                                         std::string id) {
  auto stream = std::make_shared<Answer>(registry_, deadlines_, std::move(id), key, seconds);
  std::shared_ptr<Answer> room;  // ends without the lock
  {
    std::lock_guard lock(registry_->mutex);
    const size_t own = registry_->Running(&key);
    if (!MayTakePlace(key, own, registry_->Running(nullptr), kStreamsMax)) {
      return Status(StatusCode::kResourceExhausted,
                    StrCat("API keys may have ", kStreamsMax,
                           " running streams that may be resumed, and this one has its share (",
                           own, "); try again later or without resume_seconds"),
                    "resume_seconds");
    }
    // Some have ended then, as not all of them run.
    if (registry_->streams.size() >= kStreamsMax) room = registry_->TakeEnded();
    registry_->streams.emplace(stream->id(), stream);
  }
  stream->Attach(0, std::move(client));
  return std::shared_ptr<Exchange>(std::move(stream));
}

void ResumableStreams::Resume(const std::string& key, const std::string& last_event_id,
                              const std::shared_ptr<Exchange>& client) {
  const size_t colon = last_event_id.rfind(':');
  std::optional<uint64_t> number;
  if (colon != std::string::npos) {
    number = ParseNumber<uint64_t>(std::string_view(last_event_id).substr(colon + 1));
  }
  if (number && ResumeBehind(key, last_event_id.substr(0, colon), *number, client)) return;
  client->Reply(ErrorReply(
      Status(StatusCode::kNotFound,
             "no stream of this API key goes on from there; send the header Last-Event-ID with the "
             "id of the last event that came, within the resume_seconds of the request",
             "last-event-id")));
}

bool ResumableStreams::ResumeBehind(const std::string& key, const std::string& id, uint64_t number,
                                    const std::shared_ptr<Exchange>& client) {
  std::shared_ptr<Answer> stream;
  {
    std::lock_guard lock(registry_->mutex);
    const auto found = registry_->streams.find(id);
    if (found != registry_->streams.end() && found->second->key() == key) stream = found->second;
  }
  return stream != nullptr && stream->Attach(number, client);
}

void ResumableStreams::Forget(const std::string& key, const std::string& id) const {
  std::shared_ptr<Answer> forgotten;  // outlives the lock
  std::lock_guard lock(registry_->mutex);
  const auto found = registry_->streams.find(id);
  if (found == registry_->streams.end() || found->second->key() != key) return;
  forgotten = std::move(found->second);
  registry_->streams.erase(found);
}

}  // namespace sluice::server
