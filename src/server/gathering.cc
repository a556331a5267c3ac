#include "server/gathering.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "base/str_cat.h"
#include "server/http/errors.h"
#include "server/shared/answer.h"

namespace sluice::server {
namespace {

// Of one answer's requests, how many are in the engine at once: the half of its queue is left to
// others, but never so much that steps of many short texts are not full.
size_t AtOnce(const EngineInfo& info) {
  return static_cast<size_t>(std::max({1, 2 * info.max_num_seqs, info.max_queue / 2}));
}

// Where others fill the queue, a place is looked for that often.
constexpr int64_t kLookForPlaceUs = 20'000;

class Gathering : public std::enable_shared_from_this<Gathering> {
 public:
  Gathering(std::shared_ptr<Engine> engine, std::vector<Request> requests, MakeAnswer make_answer,
            const GatheringOptions& options, TokenTotals* totals, Deadlines* deadlines,
            std::shared_ptr<Exchange> exchange)
      : engine_(std::move(engine)),
        make_answer_(std::move(make_answer)),
        totals_(totals),
        exchange_(std::move(exchange)),
        options_(options),
        at_once_(AtOnce(engine_->Info())),
        deadlines_(deadlines),
        requests_(std::move(requests)),
        vectors_(requests_.size()),
        unfinished_(requests_.size()) {}

  void Run();

 private:
  // Submits what finds a place, in one thread at a time; the rest follows as places become free.
  void Feed();
  // Submits the next request. False: enough are submitted, or nobody waits for an answer.
  // REQUIRES: `lock` holds mutex_; it is released meanwhile.
  bool SubmitNext(std::unique_lock<std::mutex>* lock);
  void OnEvent(size_t request, TextDelta&& delta);
  void OnDisconnect();
  void OnDeadline();
  // REQUIRES for both: mutex_ is held, and nothing was answered.
  void Fail(const Status& status);
  void Finish();
  void CancelAll();

  // Constant after construction.
  const std::shared_ptr<Engine> engine_;
  const MakeAnswer make_answer_;
  TokenTotals* const totals_;
  const std::shared_ptr<Exchange> exchange_;
  const GatheringOptions options_;
  const size_t at_once_;  // requests that are submitted and have not ended
  Deadlines* const deadlines_;
  std::unique_ptr<Deadlines::Entry> deadline_;  // set by Run where there is a timeout

  std::mutex mutex_;               // guards the rest; never held while the engine is called
  std::vector<Request> requests_;  // from next_ on; those before were taken
  size_t next_ = 0;                // to be submitted
  std::vector<RequestId> ids_;
  std::vector<std::vector<float>> vectors_;  // by request
  Usage usage_;
  size_t unfinished_;     // requests whose last event has not come
  bool feeding_ = false;  // a thread is in Feed
  // Calls Feed where no event will, and keeps this until then.
  std::unique_ptr<Deadlines::Entry> retry_;
  bool done_ = false;  // answered, or nobody is there to answer
};

void Gathering::Run() {
  std::weak_ptr<Gathering> weak = weak_from_this();
  if (options_.timeout_s) {
    deadline_ =
        deadlines_->At(NowMicros() + static_cast<int64_t>(*options_.timeout_s * 1e6), [weak] {
          if (auto self = weak.lock()) self->OnDeadline();
        });
  }
  exchange_->OnDisconnect([weak] {
    if (auto self = weak.lock()) self->OnDisconnect();
  });
  Feed();
}

void Gathering::Feed() {
  std::unique_lock lock(mutex_);
  if (feeding_) return;
  feeding_ = true;
  while (SubmitNext(&lock)) continue;
  feeding_ = false;
  if (!done_ && unfinished_ == 0) Finish();
  const bool cancel = done_ && unfinished_ > 0;
  lock.unlock();
  if (cancel) CancelAll();
}

bool Gathering::SubmitNext(std::unique_lock<std::mutex>* lock) {
  const auto in_engine = [this] { return unfinished_ - (requests_.size() - next_); };
  if (done_ || next_ == requests_.size() || in_engine() >= at_once_) return false;
  const size_t number = next_++;
  Request request = requests_[number];  // which is kept, as it may find no place
  lock->unlock();
  auto id = engine_->Submit(std::move(request), [self = shared_from_this(), number](TextDelta&& d) {
    self->OnEvent(number, std::move(d));
  });
  lock->lock();
  if (id.ok()) {
    ids_.push_back(*id);
    requests_[number] = {};
    return true;
  }
  if (done_) return false;
  // Of a request whose first text finds no place nothing was done: its client sends it again.
  if (number == 0 || id.status().code() != StatusCode::kResourceExhausted) {
    Fail(id.status());
    return false;
  }
  --next_;
  if (in_engine() > 0) return false;  // the end of one calls
  retry_ =
      deadlines_->At(NowMicros() + kLookForPlaceUs, [self = shared_from_this()] { self->Feed(); });
  return false;
}

void Gathering::OnEvent(size_t request, TextDelta&& delta) {
  if (delta.last) totals_->prompt += delta.usage.prompt_tokens - delta.usage.cached_tokens;
  bool cancel = false, feed = false;
  {
    std::lock_guard lock(mutex_);
    if (done_) return;
    if (delta.finish == FinishReason::kError) {
      Fail(!delta.error.ok() ? delta.error : Status(StatusCode::kInternal, "the request failed"));
    } else if (delta.finish == FinishReason::kCancelled) {
      Fail(CancelledByServer());
    } else if (delta.last) {
      --unfinished_;
      vectors_[request] = std::move(delta.embedding);
      usage_.prompt_tokens += delta.usage.prompt_tokens;
      if (unfinished_ == 0 && !feeding_) Finish();
      feed = next_ < requests_.size() && !feeding_;
    }
    cancel = done_ && unfinished_ > 0;
  }
  if (cancel) CancelAll();
  if (feed) Feed();
}

void Gathering::OnDeadline() {
  {
    std::lock_guard lock(mutex_);
    if (done_) return;
    Fail(Status(StatusCode::kDeadlineExceeded,
                StrCat("the request's timeout of ", *options_.timeout_s,
                       " s is over; send it later or with a longer one"),
                "timeout"));
    retry_.reset();
  }
  CancelAll();
}

void Gathering::OnDisconnect() {
  {
    std::lock_guard lock(mutex_);
    done_ = true;
    retry_.reset();
  }
  CancelAll();
}

void Gathering::Fail(const Status& status) {
  done_ = true;
  exchange_->Reply(ErrorReply(status, options_.errors));
}

void Gathering::Finish() {
  done_ = true;
  exchange_->Note(StrCat(usage_.prompt_tokens, " prompt tokens in ", vectors_.size(), " texts"),
                  {{"prompt_tokens", usage_.prompt_tokens}, {"texts", vectors_.size()}});
  HttpReply reply;
  reply.body = make_answer_(vectors_, usage_);
  exchange_->Reply(std::move(reply));
}

void Gathering::CancelAll() {
  std::vector<RequestId> ids;
  {
    std::lock_guard lock(mutex_);
    ids = ids_;
  }
  for (const RequestId id : ids) engine_->Cancel(id);
}

}  // namespace

void StartGathering(std::shared_ptr<Engine> engine, std::vector<Request> requests,
                    MakeAnswer make_answer, const GatheringOptions& options, TokenTotals* totals,
                    Deadlines* deadlines, std::shared_ptr<Exchange> exchange) {
  std::make_shared<Gathering>(std::move(engine), std::move(requests), std::move(make_answer),
                              options, totals, deadlines, std::move(exchange))
      ->Run();
}

}  // namespace sluice::server
