#include "server/gathering.h"

#include <mutex>
#include <utility>

#include "base/clock.h"
#include "base/str_cat.h"
#include "server/answer.h"
#include "server/http/errors.h"

namespace sluice::server {
namespace {

class Gathering : public std::enable_shared_from_this<Gathering> {
 public:
  Gathering(std::shared_ptr<Engine> engine, size_t requests, MakeAnswer make_answer,
            const GatheringOptions& options, TokenTotals* totals,
            std::shared_ptr<Exchange> exchange)
      : engine_(std::move(engine)),
        make_answer_(std::move(make_answer)),
        totals_(totals),
        exchange_(std::move(exchange)),
        options_(options),
        vectors_(requests),
        unfinished_(requests) {}

  void Run(std::vector<Request> requests, Deadlines* deadlines);

 private:
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
  std::unique_ptr<Deadlines::Entry> deadline_;  // set by Run where there is a timeout

  std::mutex mutex_;  // guards the rest; never held while the engine is called
  std::vector<RequestId> ids_;
  std::vector<std::vector<float>> vectors_;  // by request
  Usage usage_;
  size_t unfinished_;       // requests whose last event has not come
  bool submitting_ = true;  // a request may yet be refused
  bool done_ = false;       // answered, or nobody is there to answer
};

void Gathering::Run(std::vector<Request> requests, Deadlines* deadlines) {
  std::weak_ptr<Gathering> weak = weak_from_this();
  if (options_.timeout_s) {
    deadline_ =
        deadlines->At(NowMicros() + static_cast<int64_t>(*options_.timeout_s * 1e6), [weak] {
          if (auto self = weak.lock()) self->OnDeadline();
        });
  }
  exchange_->OnDisconnect([weak] {
    if (auto self = weak.lock()) self->OnDisconnect();
  });
  for (size_t i = 0; i < requests.size(); ++i) {
    auto id = engine_->Submit(
        std::move(requests[i]),
        [self = shared_from_this(), i](TextDelta&& delta) { self->OnEvent(i, std::move(delta)); });
    std::unique_lock lock(mutex_);
    if (id.ok()) ids_.push_back(*id);
    if (!id.ok() && !done_) Fail(id.status());
    if (!done_) continue;
    lock.unlock();
    return CancelAll();
  }
  std::lock_guard lock(mutex_);
  submitting_ = false;
  if (!done_ && unfinished_ == 0) Finish();
}

void Gathering::OnEvent(size_t request, TextDelta&& delta) {
  if (delta.last) totals_->prompt += delta.usage.prompt_tokens - delta.usage.cached_tokens;
  bool cancel = false;
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
      if (unfinished_ == 0 && !submitting_) Finish();
    }
    cancel = done_ && unfinished_ > 0;
  }
  if (cancel) CancelAll();
}

void Gathering::OnDeadline() {
  {
    std::lock_guard lock(mutex_);
    if (done_) return;
    Fail(Status(StatusCode::kDeadlineExceeded,
                StrCat("the request's timeout of ", *options_.timeout_s,
                       " s is over; send it later or with a longer one"),
                "timeout"));
  }
  CancelAll();
}

void Gathering::OnDisconnect() {
  {
    std::lock_guard lock(mutex_);
    done_ = true;
  }
  CancelAll();
}

void Gathering::Fail(const Status& status) {
  done_ = true;
  exchange_->Reply(ErrorReply(status, options_.errors));
}

void Gathering::Finish() {
  done_ = true;
  exchange_->Note(StrCat(usage_.prompt_tokens, " prompt tokens in ", vectors_.size(), " texts"));
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
  std::make_shared<Gathering>(std::move(engine), requests.size(), std::move(make_answer), options,
                              totals, std::move(exchange))
      ->Run(std::move(requests), deadlines);
}

}  // namespace sluice::server
