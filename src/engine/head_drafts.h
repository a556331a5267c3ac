// HeadDrafts: how many tokens the head of a model guesses for each sequence, by what steps cost
// with them and how often they were right. What it is given up for costs nothing any more: the
// sequence is computed as if there were no head. Where guesses are trees, it chooses of the nodes
// that a step has brought, too, which of them the next one verifies. Step thread only.
#pragma once

#include <vector>

#include "batch/result.h"
#include "engine/drafter.h"
#include "schedule/scheduler.h"
#include "speculate/draft_length.h"
#include "speculate/draft_tree.h"

namespace sluice::engine {

class HeadDrafts {
 public:
  struct Options {
    int32_t slots = 0;   // of the scheduler
    int32_t drafts = 0;  // of a sequence in a step, at most
    bool adapt = true;   // to what pays; else all are guessed and verified
    bool trees = false;  // exec::RunnerInfo::guess_trees
  };
  explicit HeadDrafts(const Options& options);

  // SequenceSpec::device_drafts of a sequence that arrives: all, or none where those of other
  // sequences did not pay. Now and then one has them in any case, since texts and loads change.
  int32_t ForArrival();
  // How drafts stand for a batch.
  struct Prospect {
    speculate::DraftCosts costs = {};  // of a step, as VerifyCost gives them
    bool rests = false;    // all are given up: they have lost in batches like this one (DraftGain)
    bool prompts = false;  // the step had prompts, beside which nothing is tried
  };
  // Behind a Commit of `result` that gave `outcome`: sets what is guessed for its sequences from
  // the next plan on, and attaches drafts where guesses are trees.
  void Choose(const batch::StepResult& result, const schedule::CommitOutcome& outcome,
              const Prospect& prospect, schedule::Scheduler* scheduler);
  // Guesses behind the first token of a sequence, as others show by now and as the last step cost;
  // to be called before each Plan. Below 0: nothing is guessed.
  int32_t ForFirst(bool rests) const;
  int32_t slots() const { return static_cast<int32_t>(seats_.size()); }

  // How often which number was chosen; the rest is zero.
  const DraftingTotals& totals() const { return totals_; }

 private:
  // Who has a slot of the scheduler.
  struct Seat {
    schedule::SequenceId id = 0;
    speculate::Acceptance acceptance;
    int32_t losses = 0;  // commits in a row after which no number of drafts paid
    // Of trees: what was attached, and how often each of it was expected to be right.
    speculate::GuessTrust trust;
    speculate::DraftTree tree;
    std::array<float, limits::kDraftTokensMax> expected = {};
  };
  int32_t NumberFor(Seat* seat, const Prospect& prospect) const;
  // What a step with the sequence's drafts has shown of them.
  void Learn(const batch::StepResult& result, const schedule::SequenceOutcome& out, Seat* seat);
  void LearnTree(std::span<const batch::ResultToken> tokens, int32_t drafted, Seat* seat);
  // Of what was guessed behind the step. `costs` may be null.
  void AttachTree(std::span<const batch::GuessedToken> guesses, const speculate::DraftCosts* costs,
                  schedule::Scheduler* scheduler, Seat* seat);

  const Options options_;
  std::vector<Seat> seats_;  // by slot
  speculate::Acceptance of_all_;
  speculate::DraftCosts costs_ = {};  // of the last step
  bool prompts_ = false;              // it had some
  bool rests_ = false;                // behind the last step
  int32_t unprobed_ = 0;              // steps since an arrival tried drafts that did not pay
  DraftingTotals totals_;
};

}  // namespace sluice::engine
