// Drafter: shows a proposer what a step has given and takes its drafts to the scheduler, to be
// verified by the next plan. Step thread only.
#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "schedule/scheduler.h"
#include "sluice/limits.h"
#include "speculate/proposer.h"

namespace sluice::engine {

class Drafter {
 public:
  // `drafts_max`: of a sequence in a step.
  Drafter(std::unique_ptr<speculate::Proposer> proposer, int drafts_max)
      : proposer_(std::move(proposer)), drafts_max_(drafts_max) {}

  // To be called behind each Commit, with what it gave.
  void Propose(const schedule::CommitOutcome& outcome, schedule::Scheduler* scheduler);

 private:
  // What the proposer takes for one sequence: a slot changes hands, and one that was preempted
  // loses its slot.
  struct Seat {
    schedule::SequenceId id = 0;
    uint32_t generation = 0;
    friend bool operator==(const Seat&, const Seat&) = default;
  };

  const std::unique_ptr<speculate::Proposer> proposer_;
  const int drafts_max_;
  std::vector<Seat> seats_;  // by slot
  std::array<int32_t, limits::kDraftTokensMax> drafts_;
};

}  // namespace sluice::engine
