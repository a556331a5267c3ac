// DraftPolicy: what is learned of a step when it has been committed, and what is told of it to who
// chooses drafts: HeadDrafts, of what the runner guesses, and whoever looks for drafts on the host.
// Step thread only.
#pragma once

#include <memory>

#include "batch/plan.h"
#include "batch/result.h"
#include "engine/draft_gain.h"
#include "engine/head_drafts.h"
#include "engine/verify_cost.h"
#include "schedule/scheduler.h"

namespace sluice::engine {

// What a step was, as its plan says.
struct StepKind {
  int32_t tokens = 0;
  Decoding decoding;     // its sequences, if it does nothing else, else none; and their contexts
  bool prompts = false;  // it computes long parts of them
  bool guesses = false;  // what follows, on the device

  static StepKind Of(const batch::BatchPlan& plan);
};

class DraftPolicy {
 public:
  // `head` may be null: nothing guesses on the device, or all that is guessed is verified.
  explicit DraftPolicy(std::unique_ptr<HeadDrafts> head) : head_(std::move(head)) {}

  // Behind the Commit of `result` that gave `outcome`. `took_us`: of the step, which says nothing
  // where that is `cold`. Gives what the drafts of the next step cost.
  speculate::DraftCosts Committed(const StepKind& step, int64_t took_us, bool cold,
                                  const batch::StepResult& result,
                                  const schedule::CommitOutcome& outcome,
                                  schedule::Scheduler* scheduler);

  // Before each Plan.
  void BeforePlan(schedule::Scheduler* scheduler) const;

  HeadDrafts* head() const { return head_.get(); }

 private:
  // Of the batch that those who are there will be; what is drafted for in the steps of their
  // prompts.
  int32_t Coming(const schedule::Scheduler& scheduler) const;
  void Learn(const StepKind& step, int64_t took_us, const schedule::CommitOutcome& outcome);

  const std::unique_ptr<HeadDrafts> head_;
  VerifyCost verify_cost_;
  DraftGain draft_gain_;
};

}  // namespace sluice::engine
