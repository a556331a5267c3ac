// StepLoop: the one thread that drives the scheduler and the runner. Everything else talks to it
// through commands. Start and Stop are for the owner; the rest is thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/draft_policy.h"
#include "engine/drafter.h"
#include "engine/mask_board.h"
#include "engine/metrics.h"
#include "engine/request_state.h"
#include "engine/text_workers.h"
#include "engine/tracer.h"
#include "engine/update_batch.h"
#include "exec/step_runner.h"
#include "schedule/scheduler.h"

namespace sluice::engine {

class StepLoop {
 public:
  // Both references must outlive it. `drafter` may be null: no step verifies drafts of the host
  // then. So may `head_drafts`: those of the runner are as many as each sequence asks for.
  // `draft_wait_us`: EngineOptions::draft_wait_us, for drafts that constraints force.
  // `rest`: behind so long without work, memory of KV that nobody uses is given back.
  StepLoop(exec::StepRunner& runner, std::unique_ptr<schedule::Scheduler> scheduler,
           Metrics& metrics, std::unique_ptr<Drafter> drafter = nullptr,
           std::unique_ptr<HeadDrafts> head_drafts = nullptr, int64_t draft_wait_us = 500,
           std::chrono::milliseconds rest = std::chrono::seconds(30))
      : runner_(runner),
        scheduler_(std::move(scheduler)),
        drafter_(std::move(drafter)),
        draft_policy_(std::move(head_drafts)),
        metrics_(metrics),
        draft_wait_us_(draft_wait_us),
        rest_(rest) {}
  ~StepLoop() { Stop(); }

  void Start(TextWorkers* workers);
  void Stop();  // ends every request with kCancelled

  // False when the loop has stopped: nobody will tell the request's end.
  bool Add(std::shared_ptr<RequestState> request, std::vector<schedule::SequenceSpec> sequences);
  void Cancel(RequestId id);
  void StopChoice(RequestId id, int choice);
  // Its rows wait for masks from the next plan on.
  void Mask(RequestId id, int choice);
  // Runs `call` on the step thread and waits for it. False when the loop has stopped.
  bool Call(std::function<void(schedule::Scheduler&)> call);
  void SetPaused(bool paused);
  // Traces from the next step on, until EndTrace. False when the loop has stopped.
  bool Trace(const std::shared_ptr<Tracer>& tracer) {
    return Call([&](schedule::Scheduler&) { tracers_.Add(tracer); });
  }
  bool EndTrace(const std::shared_ptr<Tracer>& tracer) {
    return Call([&](schedule::Scheduler&) { tracers_.Remove(tracer); });
  }

  struct State {
    // `waiting` counts from Add on.
    int64_t running = 0, waiting = 0, steps = 0, free_blocks = 0;
    int64_t prefill_tokens = 0;  // as EngineInfo has them
    int64_t queued_tokens = 0;   // of prompts that wait for their first admission
    double device_busy_s = 0, device_idle_s = 0;
    int64_t stuck_ms = 0;  // since the last sign of progress, while there is work; else 0
    int consecutive_failures = 0;
    int64_t failed_ms = 0;  // since the last of them
    bool paused = false;
  };
  State state() const;
  int longest_sequence() const { return longest_sequence_; }
  // Of each beam of a search with so many.
  int longest_beam(int beams) const { return scheduler_->LongestSequence(beams); }
  // For what the text workers constrain.
  MaskBoard& masks() { return board_; }

 private:
  // What the step thread is to do: admit a request with its sequences, or `call`.
  struct Command {
    std::shared_ptr<RequestState> request;
    std::vector<schedule::SequenceSpec> sequences;
    std::function<void()> call;
  };

  // False when the loop has stopped; the command is dropped.
  bool Post(Command command);
  void Run();
  // Ends what is left, the commands that nobody will take any more included.
  void EndAll();
  // One Begin, and the End of every step that does not stay in flight behind it. False when there
  // was nothing to do.
  bool Step();
  // Plan, prepare, launch. False when there is nothing to do before a Commit or an arrival; the
  // empty plan still wants its End.
  bool Begin();
  // Keeps which constrained answers go on, so that what is forced behind them is looked for.
  void NoteForced();
  // Attaches to them the tokens that they are bound to draw, before each Plan. Waits for the text
  // workers, for draft_wait_us_ at most.
  void AttachForced();
  // Puts those of the sequence into forced_. False: they are not known in time.
  bool FindForced(const schedule::Sequence& sequence, int64_t* deadline);
  // Keeps what the plan waits for, and asks for the masks of drafts where nobody has made them.
  void NoteMasked();
  // Tells those requests of the plan that want to know.
  void NoteTimelines(int64_t now_us);
  // And of the step whose result has come, before it is committed.
  void NoteStepEnds(int64_t now_us);
  // Gives the newest step its masks, when all before it are committed.
  void SampleNewest();
  struct Flight;
  // Waits for masks, and for processors of logits, as long as rows may.
  void GatherMasks(Flight* flight);
  // Rows whose masks or logits came too late are left out of the step, and counted.
  void PostponeLate();
  // Gives the logits of a step whose model is done to the processors that have not had them.
  void LendLogits(const exec::Step& step);
  // Puts what they made of them beside the masks.
  void TakeLogits();
  void NoteLate(schedule::SequenceId id);
  // Finish, commit, emit, for the oldest step in flight. False when its plan was empty.
  bool End();
  void Admit(Command* command);
  void CancelRequest(RequestId id);
  void Emit(const batch::StepResult& result, const schedule::CommitOutcome& outcome,
            const Status& error);
  // Has masks made for the beams that go on.
  void EmitMoves(std::span<const schedule::BeamMove> moves);
  // Carries on with moving experts where no step does it; says whether more is left to do.
  bool MoveExperts(bool idle);
  // Waits until there is something to do. REQUIRES: `lock` holds mutex_; no step is in flight.
  void Rest(std::unique_lock<std::mutex>* lock);
  int64_t FreeBlocks() const;
  void GiveBackKv();
  // Puts an admitted request into the table.
  void Open(std::shared_ptr<RequestState> request, int32_t handle);
  // One sequence of the request has ended.
  void Release(int32_t handle);
  UpdateBatch& BatchOf(RequestId id) { return outgoing_[workers_->IndexOf(id)]; }
  struct OpenRequest {
    Timeline* timeline() const { return state->request.timeline.get(); }  // may be null
    std::shared_ptr<RequestState> state;  // null: the place is unused
    UpdateBatch* batch = nullptr;         // its worker's, in outgoing_
  };
  void PublishQueue(const schedule::SchedulerStats& stats);
  void Publish();

  exec::StepRunner& runner_;
  const std::unique_ptr<schedule::Scheduler> scheduler_;  // step thread
  const std::unique_ptr<Drafter> drafter_;                // step thread; may be null
  DraftPolicy draft_policy_;                              // step thread
  Metrics& metrics_;
  const int64_t draft_wait_us_;
  const std::chrono::milliseconds rest_;
  // Free blocks whose memory the system has; -1: steps have run since it was given back. More are
  // free where what was cached has been dropped without a step.
  int64_t free_given_back_ = std::numeric_limits<int64_t>::max();
  TextWorkers* workers_ = nullptr;
  std::thread thread_;
  const int longest_sequence_ = scheduler_->LongestSequence();

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Command> inbox_;   // guarded by mutex_
  int64_t arriving_ = 0;         // sequences in inbox_; guarded by mutex_
  int64_t arriving_tokens_ = 0;  // of their prompts; guarded by mutex_
  bool stopping_ = false;        // guarded by mutex_
  bool paused_ = false;          // guarded by mutex_
  exec::RunnerTotals totals_;    // guarded by mutex_

  // Step thread.
  // Requests with sequences in the scheduler, by the handle that these carry.
  std::vector<OpenRequest> requests_;
  std::vector<int32_t> free_handles_;
  int timelines_ = 0;  // of these requests
  Tracers tracers_;
  std::unordered_map<RequestId, int32_t> handles_;
  std::vector<Command> taken_;
  std::vector<UpdateBatch> outgoing_;  // by text worker; empty between steps
  // A step from its plan to its commit.
  struct Flight {
    uint64_t id = 0;
    int tokens = 0;   // none: an empty plan, which is not launched and is committed in its turn
    exec::Step step;  // where `status` is good
    Status status;    // of Launch
    int64_t plan_us = 0, execute_us = 0;
    int64_t launched_us = 0;
    StepKind kind;
    int64_t prefill_tokens = 0;
    bool cold = false;  // its time, or that of the step behind which it runs, is of no use
  };
  // Gives a committed step's outcome to who chooses drafts, and learns what the step has cost.
  void Draft(const Flight& flight, int64_t took_us);
  std::vector<Flight> flights_;  // oldest first; at most as many as the runner's depth
  // Reused by every step.
  batch::BatchPlan plan_;
  batch::StepResult result_;
  schedule::CommitOutcome outcome_;
  MaskBoard board_;  // thread-safe
  // A masked entry of the newest step, whose rows stand one behind the other in masks_.
  struct Masked {
    schedule::SequenceId id = 0;
    int32_t draft_begin = 0, draft_count = 0;  // in masked_drafts_; a row more than drafts
    int32_t first = 0;                         // its first row in masks_
    bool processed = false;                    // the logits of that row, before they are sampled
    bool found = false;
  };
  void AskForMasks(const Masked& masked);
  bool FindMasks(Masked* masked);
  void DropIfStuck(schedule::SequenceId beam, std::span<uint32_t> mask);
  const MaskBoard::Place& PlaceOf(const schedule::Sequence& sequence) const;
  // Null: it has no processor.
  MaskBoard::Logits* LogitsOf(const schedule::Sequence& sequence) const;
  // Held to nothing: a masked sequence that has a processor alone.
  bool IsFree(const schedule::Sequence& sequence) const;
  std::vector<Masked> masked_;
  std::vector<int32_t> masked_drafts_;
  std::vector<int32_t> processed_rows_;  // of the newest plan
  batch::MaskSet masks_;
  std::vector<schedule::SequenceId> forced_for_;  // constrained, of the last Commit
  std::vector<int32_t> forced_;
  int64_t finished_us_ = 0;  // when the step before had finished

  std::atomic<int64_t> running_{0}, waiting_{0}, queued_tokens_{0}, steps_{0}, free_blocks_{0};
  std::atomic<int64_t> prefill_tokens_{0};
  std::atomic<int64_t> progress_us_{0};
  std::atomic<bool> has_work_{false};
  std::atomic<int> failures_{0};
  std::atomic<int64_t> failed_us_{0};  // when the last step failed
};

}  // namespace sluice::engine
