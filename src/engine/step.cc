#include "engine/step.h"

#include <algorithm>
#include <future>

#include "base/clock.h"
#include "base/log.h"
#include "base/str_cat.h"

namespace sluice::engine {

// The page to read first. One step: take what has arrived (Run), plan, prepare, launch; then
// finish, commit, emit. Where the device works while the host goes on, the newest step stays in
// flight: the next one is planned and launched behind it before its results are waited for, so that
// the device finds work when it is done. Elsewhere every step is finished at once.
bool StepLoop::Step() {
  bool progress = Begin();
  const bool flies = progress && flights_.back().status.ok();
  const size_t stay = flies ? static_cast<size_t>(runner_.Info().depth) - 1 : 0;
  while (flights_.size() > stay) progress |= End();
  return progress;
}

bool StepLoop::Begin() {
  const int64_t start = NowMicros();
  scheduler_->SetWeightsVersion(runner_.WeightsVersion());
  scheduler_->Plan(start, &plan_);
  PublishQueue(scheduler_->Stats());
  Flight flight{.id = plan_.step, .tokens = static_cast<int>(plan_.tokens.size())};
  const int64_t planned = NowMicros();
  flight.plan_us = planned - start;
  if (flight.tokens > 0) {
    auto step = runner_.Launch(&plan_, nullptr, nullptr);
    flight.status = step.status();
    if (step.ok()) flight.step = *std::move(step);
    flight.execute_us = NowMicros() - planned;
  }
  flights_.push_back(std::move(flight));
  return flights_.back().tokens > 0;
}

bool StepLoop::End() {
  Flight flight = std::move(flights_.front());
  flights_.erase(flights_.begin());
  const int64_t start = NowMicros();
  Status status = flight.status;
  exec::StepCosts costs;
  if (flight.tokens == 0) {
    result_.Reset(flight.id);
  } else if (status.ok()) {
    costs = flight.step.costs();
    status = flight.step.Finish(&result_);
  }
  const int64_t finished = NowMicros();
  if (status.ok()) {
    scheduler_->Commit(result_, &outcome_);
    if (flight.tokens > 0) failures_ = 0;
  } else {
    LogError("step ", flight.id, " failed: ", status.message());
    // Where it was found decides the code, and what was found is ours: clients get one answer.
    status = Status(StatusCode::kDevice,
                    StrCat("step ", flight.id, ", which computed this request, failed; the log of ",
                           "the program says why"));
    scheduler_->Fail(flight.id, &outcome_);
    failed_us_ = finished;
    ++failures_;
  }
  Emit(result_, outcome_, status);
  if (drafter_ != nullptr && status.ok()) drafter_->Propose(outcome_, scheduler_.get());
  if (flight.tokens == 0) return false;
  ++steps_;
  const std::optional<int64_t> sample_us = status.ok() ? costs.sample : std::nullopt;
  const int64_t execute_us =
      flight.execute_us - costs.prepare + finished - start - sample_us.value_or(0);
  const exec::RunnerTotals totals = runner_.Totals();
  metrics_.ObserveStep({.plan_s = flight.plan_us * 1e-6,
                        .prepare_s = costs.prepare * 1e-6,
                        .execute_s = execute_us * 1e-6,
                        .sample_s = sample_us ? std::optional(*sample_us * 1e-6) : std::nullopt,
                        .emit_s = (NowMicros() - finished) * 1e-6,
                        .tokens = flight.tokens,
                        .kernels_total = totals.kernels,
                        .device_calls_total = totals.host_calls});
  return true;
}

void StepLoop::Run() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      const bool can_step = !flights_.empty() || (scheduler_->HasWork() && !paused_);
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
    workers_->Post(outgoing_);
    bool paused;
    {
      std::lock_guard lock(mutex_);
      paused = paused_;
    }
    const bool may_begin = !paused && scheduler_->HasWork();
    if (!may_begin) {
      while (!flights_.empty()) End();
    } else if (!Step()) {
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
  while (!flights_.empty()) End();
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
  for (const auto& [id, handle] : handles_) open.push_back(id);
  for (const RequestId id : open) CancelRequest(id);
  workers_->Post(outgoing_);
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
      if (scheduler_->Finish(SequenceOf(command->id, command->choice),
                             schedule::FinishReason::kStop)) {
        Release(handles_.at(command->id));
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
    const int32_t handle =
        free_handles_.empty() ? static_cast<int32_t>(requests_.size()) : free_handles_.back();
    for (schedule::SequenceSpec& spec : command->sequences) spec.handle = handle;
    status = scheduler_->Add(std::move(command->sequences), now);
    if (status.ok()) {
      request->open_sequences = choices;
      return Open(request, handle);
    }
  }
  UpdateBatch& batch = BatchOf(request->id);
  for (int choice = 0; choice < choices; ++choice) {
    ChoiceUpdate update;
    update.request = request.get();
    update.choice = static_cast<uint8_t>(choice);
    update.now_us = now;
    update.finish =
        status.ok() ? schedule::FinishReason::kCancelled : schedule::FinishReason::kError;
    batch.AddEnd(update, {}, status);
  }
  batch.Retire(request);
}

void StepLoop::Open(std::shared_ptr<RequestState> request, int32_t handle) {
  if (free_handles_.empty()) {
    requests_.emplace_back();
  } else {
    free_handles_.pop_back();
  }
  request->handle = handle;
  handles_[request->id] = handle;
  UpdateBatch* const batch = &BatchOf(request->id);
  requests_[handle] = {std::move(request), batch};
}

void StepLoop::Release(int32_t handle) {
  OpenRequest& request = requests_[handle];
  if (--request.state->open_sequences > 0) return;
  handles_.erase(request.state->id);
  free_handles_.push_back(handle);
  request.batch->Retire(std::move(request.state));
}

void StepLoop::CancelRequest(RequestId id) {
  const auto found = handles_.find(id);
  if (found == handles_.end()) return;
  const int32_t handle = found->second;
  RequestState* const request = requests_[handle].state.get();
  const int choices = request->request.n;
  for (int choice = 0; choice < choices; ++choice) {
    ChoiceUpdate update;
    UpdateDetails details;
    if (const schedule::Sequence* sequence = scheduler_->Find(SequenceOf(id, choice))) {
      details.admitted_us = std::max<int64_t>(sequence->admitted_us, 0);
      details.cached_tokens = sequence->cached_tokens;
    }
    if (!scheduler_->Cancel(SequenceOf(id, choice))) continue;
    update.request = request;
    update.choice = static_cast<uint8_t>(choice);
    update.now_us = NowMicros();
    update.finish = schedule::FinishReason::kCancelled;
    BatchOf(id).AddEnd(update, details, OkStatus());
    Release(handle);
  }
}

void StepLoop::Emit(const batch::StepResult& result, const schedule::CommitOutcome& outcome,
                    const Status& error) {
  const int64_t now = NowMicros();
  for (const schedule::SequenceOutcome& sequence : outcome.sequences) {
    const OpenRequest& request = requests_[sequence.handle];
    if (error.ok()) {
      request.batch->Add(request.state.get(), sequence, result, now);
    } else {
      const ChoiceUpdate update{.request = request.state.get(),
                                .now_us = now,
                                .choice = static_cast<uint8_t>(sequence.choice),
                                .finish = sequence.finish};
      request.batch->AddEnd(update, {sequence.admitted_us, sequence.cached_tokens}, error);
    }
    if (sequence.finish != schedule::FinishReason::kNone) Release(sequence.handle);
  }
  workers_->Post(outgoing_);
}

void StepLoop::PublishQueue(const schedule::SchedulerStats& stats) {
  std::lock_guard lock(mutex_);
  totals_ = runner_.Totals();
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
                      .verified = stats.verified,
                      .drafted = stats.drafted,
                      .accepted = stats.accepted,
                      .accepted_at = stats.accepted_at});
}

void StepLoop::Start(TextWorkers* workers) {
  workers_ = workers;
  outgoing_.resize(workers->size());
  result_.tokens.reserve(runner_.Info().max_logits_rows);  // how many a step draws is chance
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

void StepLoop::StopChoice(RequestId id, int choice) {
  Command command{.kind = Command::Kind::kStopChoice};
  command.id = id;
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
  if (state.consecutive_failures > 0) state.failed_ms = (NowMicros() - failed_us_) / 1000;
  std::lock_guard lock(mutex_);
  state.device_busy_s = totals_.busy_s;
  state.device_idle_s = totals_.idle_s;
  state.paused = paused_;
  if ((has_work_ && !paused_) || !inbox_.empty()) {
    state.stuck_ms = (NowMicros() - progress_us_) / 1000;
  }
  return state;
}

}  // namespace sluice::engine
