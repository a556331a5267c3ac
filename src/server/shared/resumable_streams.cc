#include "server/shared/resumable_streams.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/parse_number.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "server/http/errors.h"
#include "server/shared/key_share.h"
#include "server/shared/owned_store.h"

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
         Life life)
      : registry_(std::move(registry)),
        deadlines_(deadlines),
        id_(id.empty() ? DrawPrivateId("stream_") : std::move(id)),
        key_(std::move(key)),
        life_(life) {}

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

  // Gives the answer to one more reader, from behind event `number` on. kNotFound: what came there
  // is gone; kResourceExhausted: it has all the readers that it may have.
  Status Attach(uint64_t number, std::shared_ptr<Exchange> client);

 private:
  struct Event {
    uint64_t number;
    std::string bytes;
  };
  struct Reader {
    uint64_t number;
    std::shared_ptr<Exchange> client;
  };

  void OnClientGone(uint64_t reader);
  // Its time is over: what makes it stops, and nobody finds it.
  void GiveUp();
  // REQUIRES: mutex_ is held.
  void EndLater();
  void Send(const std::string& bytes);
  // Somebody has stopped reading.
  void AfterLeaving();

  const std::shared_ptr<Registry> registry_;
  Deadlines* const deadlines_;
  const std::string id_;
  const std::string key_;
  const Life life_;
  std::atomic<uint64_t> ended_as_ = 0;

  std::mutex mutex_;             // guards the rest
  std::vector<Reader> readers_;  // who reads; none when it has ended
  uint64_t readers_seen_ = 0;
  std::deque<Event> events_;  // that are kept, oldest first
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
  const std::vector<Reader> readers = std::exchange(readers_, {});
  give_up_ = nullptr;
  ended_ = true;
  lock.unlock();
  for (const Reader& reader : readers) reader.client->Reply(reply);
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
  const size_t left = std::erase_if(
      readers_, [&bytes](const Reader& reader) { return !reader.client->Stream(bytes); });
  if (left > 0) AfterLeaving();
}

void ResumableStreams::Answer::AfterLeaving() {
  if (readers_.empty() && !ended_ && !life_.background) EndLater();
}

void ResumableStreams::Answer::EndStream(bool close) {
  std::lock_guard lock(mutex_);
  ended_ = true;
  ended_as_ = ++registry_->ended;
  close_ = close;
  for (const Reader& reader : readers_) reader.client->EndStream(close);
  readers_.clear();
  give_up_ = nullptr;
  EndLater();
}

void ResumableStreams::Answer::Note(std::string note, OrderedJson fields) {
  std::lock_guard lock(mutex_);
  for (const Reader& reader : readers_) reader.client->Note(note, fields);
}

void ResumableStreams::Answer::OnDisconnect(std::function<void()> call) {
  std::lock_guard lock(mutex_);
  give_up_ = std::move(call);
}

void ResumableStreams::Answer::EndLater() {
  end_ =
      deadlines_->At(NowMicros() + int64_t{life_.seconds} * 1'000'000, [weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->GiveUp();
      });
}

void ResumableStreams::Answer::OnClientGone(uint64_t reader) {
  std::lock_guard lock(mutex_);
  const size_t left =
      std::erase_if(readers_, [reader](const Reader& one) { return one.number == reader; });
  if (left > 0) AfterLeaving();
}

void ResumableStreams::Answer::GiveUp() {
  std::function<void()> give_up;
  {
    std::lock_guard lock(mutex_);
    if (!readers_.empty() && !ended_) return;  // a reader came at the last moment
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

Status ResumableStreams::Answer::Attach(uint64_t number, std::shared_ptr<Exchange> client) {
  uint64_t reader = 0;
  {
    std::lock_guard lock(mutex_);
    const uint64_t first = events_.empty() ? events_sent_ + 1 : events_.front().number;
    if (over_ || number > events_sent_ || number + 1 < first) {
      return Status(StatusCode::kNotFound, "what came behind that event is gone");
    }
    if (readers_.size() >= kReadersMax) {
      return Status(StatusCode::kResourceExhausted,
                    StrCat("the stream ", id_, " has ", readers_.size(),
                           " readers, which is the most that one may have; end one of them first"));
    }
    std::string missed;
    for (const Event& event : events_) {
      if (event.number > number) missed += event.bytes;
    }
    const bool reads = missed.empty() || client->Stream(missed);
    if (ended_) {
      client->EndStream(close_);
      return OkStatus();
    }
    if (!reads) return OkStatus();  // it has left, and the stream's time runs on
    end_.reset();
    reader = ++readers_seen_;
    readers_.push_back({reader, client});
  }
  client->OnDisconnect([weak = weak_from_this(), reader] {
    if (const auto self = weak.lock()) self->OnClientGone(reader);
  });
  return OkStatus();
}

ResumableStreams::ResumableStreams(Deadlines* deadlines)
    : deadlines_(deadlines), registry_(std::make_shared<Registry>()) {}

ResumableStreams::~ResumableStreams() {
  std::map<std::string, std::shared_ptr<Answer>> streams;  // end without the lock
  std::lock_guard lock(registry_->mutex);
  streams.swap(registry_->streams);
}

Result<std::shared_ptr<Exchange>> ResumableStreams::Open(const std::string& key, Life life,
                                                         std::shared_ptr<Exchange> client,
                                                         std::string id) {
  auto stream = std::make_shared<Answer>(registry_, deadlines_, std::move(id), key, life);
  const char* const field = life.background ? "background" : "resume_seconds";
  std::shared_ptr<Answer> room;  // ends without the lock
  {
    std::lock_guard lock(registry_->mutex);
    const size_t own = registry_->Running(&key);
    if (!MayTakePlace(key, own, registry_->Running(nullptr), kStreamsMax)) {
      return Status(StatusCode::kResourceExhausted,
                    StrCat("API keys may have ", kStreamsMax,
                           " running streams that go on without a client, and this one has its "
                           "share (",
                           own, "); try again later or without ", field),
                    field);
    }
    // Some have ended then, as not all of them run.
    if (registry_->streams.size() >= kStreamsMax) room = registry_->TakeEnded();
    registry_->streams.emplace(stream->id(), stream);
  }
  SLUICE_RETURN_IF_ERROR(stream->Attach(0, std::move(client)));
  return std::shared_ptr<Exchange>(std::move(stream));
}

void ResumableStreams::Resume(const std::string& key, const std::string& last_event_id,
                              const std::shared_ptr<Exchange>& client) {
  const size_t colon = last_event_id.rfind(':');
  std::optional<uint64_t> number;
  if (colon != std::string::npos) {
    number = ParseNumber<uint64_t>(std::string_view(last_event_id).substr(colon + 1));
  }
  Status status(StatusCode::kNotFound, "it has no number");
  if (number) status = ResumeBehind(key, last_event_id.substr(0, colon), *number, client);
  if (status.ok()) return;
  if (status.code() == StatusCode::kNotFound) {
    status = Status(
        StatusCode::kNotFound,
        StrCat("no stream of this API key goes on from ",
               last_event_id.empty() ? "a missing Last-Event-ID" : Quote(last_event_id),
               "; send the header Last-Event-ID with the id of the last event that came, within "
               "the resume_seconds of the request"),
        "last-event-id");
  }
  client->Reply(ErrorReply(status));
}

Status ResumableStreams::ResumeBehind(const std::string& key, const std::string& id,
                                      uint64_t number, const std::shared_ptr<Exchange>& client) {
  std::shared_ptr<Answer> stream;
  {
    std::lock_guard lock(registry_->mutex);
    const auto found = registry_->streams.find(id);
    if (found != registry_->streams.end() && found->second->key() == key) stream = found->second;
  }
  if (stream == nullptr) return Status(StatusCode::kNotFound, "there is no such stream");
  return stream->Attach(number, client);
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
