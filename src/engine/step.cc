#include "engine/step.h"

#include <algorithm>
#include <future>

#include "base/clock.h"
#include "base/log.h"

namespace sluice::engine {

// The page to read first. One step: take what has arrived, plan, prepare, execute, commit, emit.
bool StepLoop::Step() {
  const int64_t start = NowMicros();
  scheduler_->Plan(start, &plan_);
  PublishQueue(scheduler_->Stats());
  if (plan_.entries.empty() && scheduler_->uncommitted() == 1) {
    result_.Reset(plan_.step);
    scheduler_->Commit(result_, &outcome_);
    Emit(result_, outcome_, OkStatus());
    return false;
  }
  const int tokens = static_cast<int>(plan_.tokens.size());
  const uint64_t step = plan_.step;
  const int64_t planned = NowMicros();
  int64_t prepared = planned;
  const Status status = [&]() -> Status {
    SLUICE_ASSIGN_OR_RETURN(exec::PreparedBatch batch, executor_.Prepare(&plan_));
    SLUICE_RETURN_IF_ERROR(batch.Sync());
    prepared = NowMicros();
    return executor_.Execute(std::move(batch), nullptr, nullptr, &result_);
  }();
  const int64_t executed = NowMicros();
  const int64_t sample_us = status.ok() ? executor_.sample_us() : 0;
  if (status.ok()) {
    scheduler_->Commit(result_, &outcome_);
    failures_ = 0;
  } else {
    LogError("step ", step, " failed: ", status.message());
    scheduler_->Fail(step, &outcome_);
    ++failures_;
  }
  Emit(result_, outcome_, status);
  ++steps_;
  const int64_t emitted = NowMicros();
  metrics_.ObserveStep({.plan_s = (planned - start) * 1e-6,
                        .prepare_s = (prepared - planned) * 1e-6,
                        .execute_s = (executed - prepared - sample_us) * 1e-6,
                        .sample_s = sample_us * 1e-6,
                        .emit_s = (emitted - executed) * 1e-6,
                        .tokens = tokens});
  return true;
}

void StepLoop::Run() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      const bool can_step = scheduler_->HasWork() && !paused_;
      if (inbox_.empty() && !can_step && !stopping_) {
        has_work_ = false;
        wake_.wait(lock, [&] {
          return stopping_ || !inbox_.empty() || (scheduler_->HasWork() && !paused_);
        });
      }
      if (stopping_) break;
      taken_.swap(inbox_);
      arriving_ = 0;
    }
    progress_us_ = NowMicros();
    has_work_ = true;
    for (Command& command : taken_) Apply(&command);
    taken_.clear();
    bool paused;
    {
      std::lock_guard lock(mutex_);
      paused = paused_;
    }
    if (!paused && scheduler_->HasWork() && !Step()) {
      // Nothing can run before something arrives (KV from another process, say).
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, std::chrono::milliseconds(1),
                     [&] { return stopping_ || !inbox_.empty(); });
    }
    Publish();
  }
  EndAll();
}

void StepLoop::EndAll() {
  {
    // Post takes nothing more. Calls that are dropped answer their callers.
    std::lock_guard lock(mutex_);
    taken_.swap(inbox_);
    arriving_ = 0;
  }
  for (Command& command : taken_) {
    if (command.kind != Command::Kind::kAdd) continue;
    command.request->cancelled = true;
    Admit(&command);
  }
  taken_.clear();
  std::vector<RequestId> open;
  for (const auto& [id, request] : requests_) open.push_back(id);
  for (const RequestId id : open) CancelRequest(id);
  Publish();
}

void StepLoop::Apply(Command* command) {
  switch (command->kind) {
    case Command::Kind::kAdd:
      Admit(command);
      break;
    case Command::Kind::kCancel:
      CancelRequest(command->id);
      break;
    case Command::Kind::kStopChoice:
      if (scheduler_->Finish(SequenceOf(command->request->id, command->choice),
                             schedule::FinishReason::kStop)) {
        Release(command->request.get());
      }
      break;
    case Command::Kind::kCall:
      command->call(*scheduler_);
      break;
  }
}

void StepLoop::Admit(Command* command) {
  const std::shared_ptr<RequestState>& request = command->request;
  const int choices = static_cast<int>(command->sequences.size());
  const int64_t now = NowMicros();
  Status status;
  if (!request->cancelled) {
    status = scheduler_->Add(std::move(command->sequences), now);
    if (status.ok()) {
      request->open_sequences = choices;
      requests_[request->id] = request;
      return;
    }
  }
  std::vector<ChoiceUpdate> updates(choices);
  for (int choice = 0; choice < choices; ++choice) {
    updates[choice].request = request;
    updates[choice].choice = choice;
    updates[choice].now_us = now;
    updates[choice].finish =
        status.ok() ? schedule::FinishReason::kCancelled : schedule::FinishReason::kError;
    updates[choice].error = status;
  }
  workers_->Post(std::move(updates));
}

void StepLoop::CancelRequest(RequestId id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  const std::shared_ptr<RequestState> request = found->second;
  std::vector<ChoiceUpdate> updates;
  for (int choice = 0; choice < request->request.n; ++choice) {
    ChoiceUpdate update;
    if (const schedule::Sequence* sequence = scheduler_->Find(SequenceOf(id, choice))) {
      update.admitted_us = std::max<int64_t>(sequence->admitted_us, 0);
      update.cached_tokens = sequence->cached_tokens;
    }
    if (!scheduler_->Cancel(SequenceOf(id, choice))) continue;
    update.request = request;
    update.choice = choice;
    update.now_us = NowMicros();
    update.finish = schedule::FinishReason::kCancelled;
    updates.push_back(std::move(update));
    Release(request.get());
  }
  workers_->Post(std::move(updates));
}

// One sequence of the request has ended.
void StepLoop::Release(RequestState* request) {
  if (--request->open_sequences == 0) requests_.erase(request->id);
}

void StepLoop::Emit(const batch::StepResult& result, const schedule::CommitOutcome& outcome,
                    const Status& error) {
  std::vector<ChoiceUpdate> updates;
  updates.reserve(outcome.sequences.size());
  const int64_t now = NowMicros();
  for (const schedule::SequenceOutcome& sequence : outcome.sequences) {
    const auto found = requests_.find(sequence.request);
    if (found == requests_.end()) continue;
    ChoiceUpdate update;
    update.request = found->second;
    update.choice = sequence.choice;
    update.finish = sequence.finish;
    update.cached_tokens = sequence.cached_tokens;
    update.admitted_us = sequence.admitted_us;
    update.now_us = now;
    if (sequence.finish == schedule::FinishReason::kError) update.error = error;
    const auto copy = [&](const std::vector<batch::ResultToken>& from, int begin, int count,
                          std::vector<batch::ResultToken>* to) {
      for (int i = begin; i < begin + count; ++i) {
        batch::ResultToken token = from[i];
        token.top_begin = static_cast<int32_t>(update.top.size());
        update.top.insert(update.top.end(), result.top.begin() + from[i].top_begin,
                          result.top.begin() + from[i].top_begin + from[i].top_count);
        to->push_back(token);
      }
    };
    copy(result.scores, sequence.score_begin, sequence.score_count, &update.scores);
    copy(result.tokens, sequence.token_begin, sequence.token_count, &update.tokens);
    if (sequence.finish != schedule::FinishReason::kNone) Release(update.request.get());
    updates.push_back(std::move(update));
  }
  if (!updates.empty()) workers_->Post(std::move(updates));
}

void StepLoop::PublishQueue(const schedule::SchedulerStats& stats) {
  std::lock_guard lock(mutex_);
  running_ = stats.running;
  waiting_ = stats.waiting + arriving_;
}

void StepLoop::Publish() {
  const schedule::SchedulerStats stats = scheduler_->Stats();
  PublishQueue(stats);
  int64_t free = 0, total = 0;
  for (size_t g = 0; g < scheduler_->kv().groups().size(); ++g) {
    free += scheduler_->kv().pool(static_cast<int32_t>(g)).available();
    total += scheduler_->kv().pool(static_cast<int32_t>(g)).size();
  }
  free_blocks_ = free;
  metrics_.SetGauges({.running = stats.running,
                      .waiting = stats.waiting,
                      .kv_usage = stats.kv_usage,
                      .free_blocks = free,
                      .total_blocks = total,
                      .preemptions = stats.preemptions,
                      .prefix_queries = stats.prefix_queries,
                      .prefix_hits = stats.prefix_hits,
                      .drafted = stats.drafted,
                      .accepted = stats.accepted});
}

void StepLoop::Start(TextWorkers* workers) {
  workers_ = workers;
  Publish();
  thread_ = std::thread([this] { Run(); });
}

void StepLoop::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool StepLoop::Post(Command command) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return false;
    // An idle loop has shown no progress for long; it is not stuck.
    if (inbox_.empty() && !has_work_) progress_us_ = NowMicros();
    arriving_ += static_cast<int64_t>(command.sequences.size());
    waiting_ += static_cast<int64_t>(command.sequences.size());
    inbox_.push_back(std::move(command));
  }
  wake_.notify_all();
  return true;
}

bool StepLoop::Add(std::shared_ptr<RequestState> request,
                   std::vector<schedule::SequenceSpec> sequences) {
  Command command{.kind = Command::Kind::kAdd};
  command.request = std::move(request);
  command.sequences = std::move(sequences);
  return Post(std::move(command));
}

void StepLoop::Cancel(RequestId id) {
  Command command{.kind = Command::Kind::kCancel};
  command.id = id;
  Post(std::move(command));
}

void StepLoop::StopChoice(std::shared_ptr<RequestState> request, int choice) {
  Command command{.kind = Command::Kind::kStopChoice};
  command.request = std::move(request);
  command.choice = choice;
  Post(std::move(command));
}

bool StepLoop::Call(std::function<void(schedule::Scheduler&)> call) {
  auto done = std::make_shared<std::promise<void>>();
  std::future<void> future = done->get_future();
  Command command{.kind = Command::Kind::kCall};
  command.call = [call = std::move(call), done = std::move(done)](schedule::Scheduler& scheduler) {
    call(scheduler);
    done->set_value();
  };
  if (!Post(std::move(command))) return false;
  try {
    future.get();
  } catch (const std::future_error&) {  // the loop stopped first and dropped the command
    return false;
  }
  return true;
}

void StepLoop::SetPaused(bool paused) {
  {
    std::lock_guard lock(mutex_);
    paused_ = paused;
  }
  wake_.notify_all();
}

StepLoop::State StepLoop::state() const {
  State state;
  state.running = running_;
  state.waiting = waiting_;
  state.steps = steps_;
  state.free_blocks = free_blocks_;
  state.consecutive_failures = failures_;
  std::lock_guard lock(mutex_);
  state.paused = paused_;
  if ((has_work_ && !paused_) || !inbox_.empty()) {
    state.stuck_ms = (NowMicros() - progress_us_) / 1000;
  }
  return state;
}

}  // namespace sluice::engine
