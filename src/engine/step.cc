#include "engine/step.h"

#include <algorithm>
#include <future>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/str_cat.h"
#include "engine/timeline_notes.h"

namespace sluice::engine {
namespace {

// The tokens of prompts, or of what is computed again: an entry that draws has a row for each of
// its tokens, and one for each token of a prompt is that of a prompt that is scored.
int64_t PrefillTokens(const batch::BatchPlan& plan) {
  int64_t tokens = 0;
  for (const batch::PlanEntry& entry : plan.entries) {
    const bool draws = entry.query_tokens == entry.logits_count &&
                       entry.logits_count <= limits::kDraftTokensMax + 1;
    tokens += draws ? 0 : entry.query_tokens;
  }
  return tokens;
}

}  // namespace

// The page to read first. One step: take what has arrived (Run), plan, prepare, launch; then
// finish, commit, emit. Where the device works while the host goes on, the newest step stays in
// flight: the next one is planned and launched behind it before its results are waited for, so that
// the device finds work when it is done. Elsewhere every step is finished at once. Where rows of
// the newest step are masked, its model runs while the steps before it are committed and the text
// workers make the masks; then it is sampled.
bool StepLoop::Step() {
  bool progress = Begin();
  const bool flies = progress && flights_.back().status.ok();
  const size_t stay = flies ? static_cast<size_t>(runner_.Info().depth) - 1 : 0;
  if (flies && flights_.back().step.waits_for_masks()) {
    while (flights_.size() > 1) progress |= End();
    SampleNewest();
  }
  while (flights_.size() > stay) progress |= End();
  // What lies behind a step that failed will fail too: nothing else is put behind it.
  while (failures_ > 0 && !flights_.empty()) progress |= End();
  return progress;
}

bool StepLoop::Begin() {
  if (drafter_ != nullptr) drafter_->Take(scheduler_.get());
  AttachForced();  // instead of what was guessed
  const int64_t start = NowMicros();
  draft_policy_.BeforePlan(scheduler_.get());
  scheduler_->SetWeightsVersion(runner_.WeightsVersion());
  scheduler_->Plan(start, &plan_);
  PublishQueue(scheduler_->Stats());
  Flight flight{.id = plan_.step, .tokens = static_cast<int>(plan_.tokens.size())};
  const int64_t planned = NowMicros();
  flight.plan_us = planned - start;
  if (flight.tokens > 0) {
    NoteMasked();
    NoteTimelines(planned);
    flight.launched_us = planned;
    free_given_back_ = -1;
    flight.kind = StepKind::Of(plan_);
    flight.prefill_tokens = PrefillTokens(plan_);
    auto step = runner_.Launch(&plan_, nullptr);
    flight.status = step.status();
    if (step.ok()) flight.step = *std::move(step);
    // What it meets is told by Finish again.
    if (step.ok() && !processed_rows_.empty()) (void)flight.step.FetchLogits(processed_rows_);
    flight.execute_us = NowMicros() - planned;
  }
  flights_.push_back(std::move(flight));
  return flights_.back().tokens > 0;
}

void StepLoop::NoteTimelines(int64_t now_us) {
  if (timelines_ == 0) return;
  for (const batch::PlanEntry& entry : plan_.entries) {
    const schedule::Sequence& sequence = *scheduler_->Find(entry.sequence);
    Timeline* const timeline = requests_[sequence.spec.handle].timeline();
    if (timeline == nullptr) continue;
    // What is computed again behind a preemption is a chunk as well.
    const bool draws =
        entry.first_position >= sequence.prompt_tokens && entry.query_tokens == entry.logits_count;
    NoteStep({.step = plan_.step,
              .now_us = now_us,
              .choice = sequence.spec.sampling.choice,
              .tokens = entry.query_tokens,
              .sequences = static_cast<int64_t>(plan_.entries.size()),
              .draws = draws,
              .starts = entry.told_whole == plan_.step,
              .admitted_us = sequence.admitted_us},
             timeline);
  }
}

void StepLoop::NoteStepEnds(int64_t now_us) {
  if (timelines_ == 0) return;
  for (const batch::ResultEntry& entry : result_.entries) {
    const schedule::Sequence* const sequence = scheduler_->Find(entry.sequence);
    if (sequence == nullptr) continue;  // it was cancelled meanwhile
    Timeline* const timeline = requests_[sequence->spec.handle].timeline();
    if (timeline == nullptr) continue;
    NoteStepEnd(result_.step, now_us, sequence->spec.sampling.choice, timeline);
  }
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
    // While a graph of the step behind it is captured nobody looks for its end.
    flight.cold = costs.cold || (!flights_.empty() && flights_.front().step.launched() &&
                                 flights_.front().step.costs().cold);
    status = flight.step.Finish(&result_);
  }
  const int64_t finished = NowMicros();
  // Behind another step it began when that had finished.
  const int64_t begun = std::max(flight.launched_us, finished_us_);
  if (flight.tokens > 0) finished_us_ = finished;
  if (status.ok()) {
    NoteStepEnds(finished);
    scheduler_->Commit(result_, &outcome_);
    if (flight.tokens > 0) scheduler_->Took(finished - begun);
    if (flight.tokens > 0) failures_ = 0;
    prefill_tokens_ += flight.prefill_tokens;
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
  // No other thread writes totals_.
  for (size_t i = 0; totals_.drafts_failed && i < outcome_.sequences.size(); ++i)
    scheduler_->LimitDrafts(outcome_.sequences[i].id, -1);
  NoteForced();
  // First, so that the proposer works while the rest is done.
  if ((drafter_ != nullptr || draft_policy_.head() != nullptr) && status.ok())
    Draft(flight, finished - begun);
  Emit(result_, outcome_, status);
  if (flight.tokens == 0) return false;
  ++steps_;
  const int64_t sample_us = status.ok() ? costs.sample : 0;
  const int64_t execute_us = flight.execute_us - costs.prepare + finished - start - sample_us;
  metrics_.ObserveStep({.plan_s = flight.plan_us * 1e-6,
                        .prepare_s = costs.prepare * 1e-6,
                        .execute_s = execute_us * 1e-6,
                        .sample_s = sample_us * 1e-6,
                        .emit_s = (NowMicros() - finished) * 1e-6,
                        .tokens = flight.tokens,
                        .totals = runner_.Totals()});
  if (!tracers_.empty()) {
    tracers_.Step({.step = flight.id,
                   .begin_us = flight.launched_us - flight.plan_us,
                   .plan_us = flight.plan_us,
                   .launched_us = flight.launched_us,
                   .finished_us = finished,
                   .prepare_us = costs.prepare,
                   .sample_us = sample_us,
                   .end_us = NowMicros(),
                   .tokens = flight.tokens});
  }
  return true;
}

void StepLoop::Draft(const Flight& flight, int64_t took_us) {
  const speculate::DraftCosts costs = draft_policy_.Committed(flight.kind, took_us, flight.cold,
                                                              result_, outcome_, scheduler_.get());
  if (drafter_ != nullptr) drafter_->Hand(result_, outcome_, *scheduler_, costs);
}

bool StepLoop::MoveExperts(bool idle) {
  const experts::Balancer* const balancer = runner_.ExpertBalancer();
  if (balancer == nullptr || !balancer->busy()) return false;
  if (!idle) return true;
  const Result<bool> more = runner_.MoveExperts();
  if (!more.ok()) LogError("experts could not be moved: ", more.status().message());
  return more.ok() && *more;
}

void StepLoop::Rest(std::unique_lock<std::mutex>* lock) {
  const auto has_work = [&] {
    return stopping_ || !inbox_.empty() || (scheduler_->HasWork() && !paused_);
  };
  if (FreeBlocks() > free_given_back_ && !wake_.wait_for(*lock, rest_, has_work)) {
    lock->unlock();
    GiveBackKv();
    lock->lock();
  }
  wake_.wait(*lock, has_work);
}

int64_t StepLoop::FreeBlocks() const {
  int64_t blocks = 0;
  for (size_t group = 0; group < runner_.Info().kv_groups.size(); ++group)
    blocks += scheduler_->kv().pool(static_cast<int32_t>(group)).free();
  return blocks;
}

void StepLoop::GiveBackKv() {
  const auto groups = static_cast<int32_t>(runner_.Info().kv_groups.size());
  for (int32_t group = 0; group < groups; ++group) {
    scheduler_->kv().pool(group).ForEachFreeRun(
        [&](int32_t first, int32_t count) { runner_.GiveBackKv(group, first, count); });
  }
  free_given_back_ = FreeBlocks();
}

void StepLoop::Run() {
  bool moves_experts = false;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      const bool can_step = !flights_.empty() || (scheduler_->HasWork() && !paused_);
      if (inbox_.empty() && !can_step && !stopping_ && !moves_experts) {
        has_work_ = false;
        Rest(&lock);
      }
      if (stopping_) break;
      taken_.swap(inbox_);
      arriving_ = arriving_tokens_ = 0;
    }
    progress_us_ = NowMicros();
    has_work_ = true;
    for (Command& command : taken_) {
      if (command.request != nullptr) {
        Admit(&command);
      } else {
        command.call();
      }
    }
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
      // Nothing can run before something arrives.
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, std::chrono::milliseconds(1),
                     [&] { return stopping_ || !inbox_.empty(); });
    }
    moves_experts = MoveExperts(/*idle=*/!may_begin);
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
    arriving_ = arriving_tokens_ = 0;
  }
  for (Command& command : taken_) {
    if (command.request == nullptr) continue;
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

void StepLoop::Admit(Command* command) {
  const std::shared_ptr<RequestState>& request = command->request;
  // One sequence stands for all answers of a beam search.
  const int choices = request->request.beams.on() ? request->request.n
                                                  : static_cast<int>(command->sequences.size());
  const int64_t now = NowMicros();
  Status status;
  if (!request->cancelled) {
    const int32_t handle =
        free_handles_.empty() ? static_cast<int32_t>(requests_.size()) : free_handles_.back();
    for (schedule::SequenceSpec& spec : command->sequences) {
      spec.handle = handle;
      if (draft_policy_.head() != nullptr && spec.device_drafts > 0)
        spec.device_drafts = draft_policy_.head()->ForArrival();
    }
    status = scheduler_->Add(std::move(command->sequences), now);
    if (status.ok()) {
      request->open_sequences = choices;
      return Open(request, handle);
    }
  }
  UpdateBatch& batch = BatchOf(request->id);
  for (int choice = 0; choice < choices; ++choice) {
    batch.AddEnd({.request = request.get(),
                  .now_us = now,
                  .choice = static_cast<uint8_t>(choice),
                  .finish = status.ok() ? schedule::FinishReason::kCancelled
                                        : schedule::FinishReason::kError},
                 {}, status);
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
  NoteTime(&Timeline::queued_us, NowMicros(), request->request.timeline.get());
  tracers_.RequestBegins(request->id, request->submitted_us);
  timelines_ += request->request.timeline != nullptr ? 1 : 0;
  handles_[request->id] = handle;
  UpdateBatch* const batch = &BatchOf(request->id);
  requests_[handle] = {std::move(request), batch};
}

void StepLoop::Release(int32_t handle) {
  OpenRequest& request = requests_[handle];
  if (--request.state->open_sequences > 0) return;
  tracers_.RequestEnds(request.state->id, NowMicros());
  timelines_ -= request.timeline() != nullptr ? 1 : 0;
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
    UpdateDetails details;
    if (const schedule::Sequence* sequence = scheduler_->Find(SequenceOf(id, choice))) {
      details.admitted_us = std::max<int64_t>(sequence->admitted_us, 0);
      details.cached_tokens = sequence->cached_tokens;
    }
    // The answers of a beam search end together.
    const bool ends = scheduler_->Cancel(SequenceOf(id, choice));
    if (!ends && !(request->request.beams.on() && choice > 0)) continue;
    if (drafter_ != nullptr) drafter_->End(SequenceOf(id, choice));
    BatchOf(id).AddEnd({.request = request,
                        .now_us = NowMicros(),
                        .choice = static_cast<uint8_t>(choice),
                        .finish = schedule::FinishReason::kCancelled},
                       details, OkStatus());
    Release(handle);
  }
}

void StepLoop::Emit(const batch::StepResult& result, const schedule::CommitOutcome& outcome,
                    const Status& error) {
  const int64_t now = NowMicros();
  EmitMoves(outcome.moves);
  for (const schedule::SequenceOutcome& sequence : outcome.sequences) {
    const OpenRequest& request = requests_[sequence.handle];
    if (request.timeline() != nullptr) NoteOutcome(sequence, now, request.timeline());
    const bool first = sequence.choice == 0 && sequence.drawn == sequence.token_count;
    if (first && sequence.drawn > 0) tracers_.RequestDraws(request.state->id, now);
    if (error.ok()) {
      request.batch->Add(request.state.get(), sequence, sequence.beam ? outcome.answers : result,
                         now);
    } else {
      request.batch->AddEnd({.request = request.state.get(),
                             .now_us = now,
                             .choice = static_cast<uint8_t>(sequence.choice),
                             .finish = sequence.finish},
                            {sequence.admitted_us, sequence.cached_tokens}, error);
    }
    if (sequence.finish != schedule::FinishReason::kNone) Release(sequence.handle);
  }
  workers_->Post(outgoing_);
}

void StepLoop::EmitMoves(std::span<const schedule::BeamMove> moves) {
  while (!moves.empty()) {
    const int32_t handle = moves[0].handle;
    const auto end = std::find_if(moves.begin(), moves.end(),
                                  [&](const auto& move) { return move.handle != handle; });
    const auto count = static_cast<size_t>(end - moves.begin());
    const OpenRequest& request = requests_[handle];
    request.batch->AddBeams(request.state.get(), moves.first(count));
    moves = moves.subspan(count);
  }
}

void StepLoop::PublishQueue(const schedule::SchedulerStats& stats) {
  std::lock_guard lock(mutex_);
  totals_ = runner_.Totals();
  running_ = stats.running;
  waiting_ = stats.waiting + arriving_;
  queued_tokens_ = stats.queued_tokens + arriving_tokens_;
}

void StepLoop::Publish() {
  const schedule::SchedulerStats stats = scheduler_->Stats();
  PublishQueue(stats);
  free_blocks_ = stats.free_blocks;
  metrics_.SetGauges(stats);
  DraftingTotals drafting;
  if (drafter_ != nullptr) drafting = drafter_->totals();
  if (draft_policy_.head() != nullptr) drafting = draft_policy_.head()->totals();
  drafting.seconds += totals_.drafting_s;
  metrics_.SetDrafting(drafting);
  metrics_.SetExperts(runner_.ExpertLoads());
  metrics_.SetExpertBalance(runner_.ExpertBalancer(), runner_.ExpertSlotLoads());
}

void StepLoop::Start(TextWorkers* workers) {
  workers_ = workers;
  outgoing_.resize(workers->size());
  result_.tokens.reserve(runner_.Info().max_logits_rows);  // how many a step draws is chance
  forced_for_.reserve(scheduler_->options().max_num_seqs);
  forced_.reserve(limits::kDraftTokensMax);
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
    for (const schedule::SequenceSpec& spec : command.sequences) {
      arriving_tokens_ += static_cast<int64_t>(spec.prompt.size());
      queued_tokens_ += static_cast<int64_t>(spec.prompt.size());
    }
    inbox_.push_back(std::move(command));
  }
  wake_.notify_all();
  return true;
}

bool StepLoop::Add(std::shared_ptr<RequestState> request,
                   std::vector<schedule::SequenceSpec> sequences) {
  return Post({.request = std::move(request), .sequences = std::move(sequences)});
}

void StepLoop::Cancel(RequestId id) {
  Post({.call = [this, id] { CancelRequest(id); }});
}

void StepLoop::StopChoice(RequestId id, int choice) {
  Post({.call = [this, id, choice] {
    if (!scheduler_->Finish(SequenceOf(id, choice), schedule::FinishReason::kStop)) return;
    if (drafter_ != nullptr) drafter_->End(SequenceOf(id, choice));
    const int32_t handle = handles_.at(id);
    const Request& request = requests_[handle].state->request;
    const int ended = request.beams.on() ? request.n : 1;  // those of a beam search end together
    for (int i = 0; i < ended; ++i) Release(handle);
  }});
}

void StepLoop::Mask(RequestId id, int choice) {
  Post({.call = [this, id, choice] { scheduler_->Mask(SequenceOf(id, choice)); }});
}

bool StepLoop::Call(std::function<void(schedule::Scheduler&)> call) {
  auto done = std::make_shared<std::promise<void>>();
  std::future<void> future = done->get_future();
  Command command;
  command.call = [this, call = std::move(call), done = std::move(done)] {
    call(*scheduler_);
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
  state.queued_tokens = queued_tokens_;
  state.steps = steps_;
  state.prefill_tokens = prefill_tokens_;
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
