// HeadDrafts: how many tokens the head of a model guesses for each sequence, by what steps cost
// with them and how often they were right. What it is given up for costs nothing any more: the
// sequence is computed as if there were no head. Step thread only.
#pragma once

#include <vector>

#include "engine/drafter.h"
#include "schedule/scheduler.h"
#include "speculate/draft_length.h"

namespace sluice::engine {

class HeadDrafts {
 public:
  // `slots`: of the scheduler. `drafts`: of a sequence in a step, at most.
  HeadDrafts(int32_t slots, int32_t drafts);

  // SequenceSpec::device_drafts of a sequence that arrives: all, or none where those of other
  // sequences did not pay. Now and then one has them in any case, since texts and loads change.
  int32_t ForArrival();
  // Behind a Commit that gave `outcome`: sets what is guessed for its sequences from the next plan
  // on. `costs`: of a step, as VerifyCost gives them. `rests`: all of them are given up, since
  // drafts have lost in batches like this one (DraftGain).
  void Choose(const schedule::CommitOutcome& outcome, const speculate::DraftCosts& costs,
              bool rests, schedule::Scheduler* scheduler);

  // How often which number was chosen; the rest is zero.
  const DraftingTotals& totals() const { return totals_; }

 private:
  // Who has a slot of the scheduler.
  struct Seat {
    schedule::SequenceId id = 0;
    speculate::Acceptance acceptance;
    int32_t losses = 0;  // commits in a row after which no number of drafts paid
  };
  int32_t NumberFor(Seat* seat, const speculate::DraftCosts& costs) const;

  const int32_t drafts_;
  std::vector<Seat> seats_;  // by slot
  speculate::Acceptance of_all_;
  speculate::DraftCosts costs_ = {};  // of the last step
  bool rests_ = false;                // behind the last step
  int32_t unprobed_ = 0;              // steps since an arrival tried drafts that did not pay
  DraftingTotals totals_;
};

}  // namespace sluice::engine
