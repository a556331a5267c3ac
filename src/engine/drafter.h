// Drafter: shows a proposer, on a thread of its own, what steps have given, and takes its drafts to
// the scheduler, to be verified by the next plan. Drafts that come too late are not verified. All
// calls are the step thread's; none allocates, and those that wait do so for
// DrafterOptions::wait_us at most.
//
// A slot of the scheduler has a desk here, on which the text of its sequence lies. It belongs to
// the step thread or to the proposer's, as its state says: whoever has it passes it on by a store.
// A desk that is not back in time is left alone, and its text is completed when it is.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "batch/result.h"
#include "schedule/scheduler.h"
#include "sluice/limits.h"
#include "speculate/draft_length.h"
#include "speculate/proposer.h"

namespace sluice::engine {

struct DrafterOptions {
  int32_t slots = 1;            // of the scheduler
  int32_t sequence_tokens = 1;  // at most; what a client expects in the answer is no longer either
  int32_t drafts = limits::kDraftTokensMax;  // of a sequence in a step, at most
  bool adapt = true;                         // to what pays; else all drafts are verified
  bool trees = false;                        // they may be a tree
  int64_t wait_us = 500;                     // of Take, at most
};

struct DraftingTotals {
  uint64_t learned = 0;  // sequences that ended, of which the proposer knows the text
  uint64_t late = 0;     // times that a sequence's drafts were not there for its step
  double seconds = 0;    // of the proposer's thread, finding drafts
  std::array<uint64_t, limits::kDraftTokensMax + 1> lengths = {};  // drafts given, by their number
};

class Drafter {
 public:
  Drafter(std::unique_ptr<speculate::Proposer> proposer, const DrafterOptions& options);
  ~Drafter();
  Drafter(const Drafter&) = delete;
  Drafter& operator=(const Drafter&) = delete;

  // To be called behind each Commit of `result`, which gave `outcome`.
  void Hand(const batch::StepResult& result, const schedule::CommitOutcome& outcome,
            const schedule::Scheduler& scheduler, const speculate::DraftCosts& costs);
  // A sequence ends otherwise than by a Commit; what is known of it is learned.
  void End(schedule::SequenceId id);
  // To be called before each Plan. Waits for what was handed since the call before.
  void Take(schedule::Scheduler* scheduler);

  DraftingTotals totals() const;  // any thread

 private:
  enum class State : uint8_t {
    kOurs,    // the step thread's; it may hold drafts
    kAsked,   // drafts are wanted
    kEnding,  // the text is to be learned
  };
  struct Desk {
    std::atomic<State> state = State::kOurs;
    bool starts = false;  // with another sequence
    bool trees = false;   // its drafts may be trees
    speculate::Opening opening;
    std::unique_ptr<int32_t[]> text;  // what is quoted, the prompt, the answer
    int32_t size = 0;                 // of it
    int32_t room = 0;                 // for drafts
    speculate::DraftCosts costs;
    std::array<int32_t, limits::kDraftTokensMax> drafts, parents;
    int32_t count = 0;  // of them
    // The proposer's thread.
    speculate::Acceptance acceptance;
    bool failed = false;  // the proposer; it is not asked any more for this sequence
  };
  // Whose text lies on a desk: a slot changes hands, and one that was preempted loses its slot.
  struct Seat {
    schedule::SequenceId id = 0;
    uint32_t generation = 0;
    friend bool operator==(const Seat&, const Seat&) = default;
  };

  bool IsOurs(const Desk& desk) const {
    return desk.state.load(std::memory_order_acquire) == State::kOurs;
  }
  // The same, after a while that ends at *deadline; negative: it begins now.
  bool IsBack(const Desk& desk, int64_t* deadline) const;
  // Completes the text. False when the answer has no room for drafts.
  bool Prepare(const schedule::Sequence& sequence);
  void Pass(int32_t slot, State state);
  void Attach(int32_t slot, schedule::Scheduler* scheduler);
  int32_t SlotOf(schedule::SequenceId id) const;  // negative: none

  void Run();
  bool Pop(int32_t* slot);
  void Serve(int32_t slot);
  void Propose(int32_t slot, Desk* desk);
  void ProposeTree(int32_t slot, Desk* desk, const speculate::Draft& draft);
  void LearnPiece();
  template <class Work>
  void Guard(Desk* desk, Work&& work);

  // Constant after construction.
  const std::unique_ptr<speculate::Proposer> proposer_;  // the proposer's thread
  const DrafterOptions options_;
  std::vector<Desk> desks_;  // by slot; see its state

  // Step thread.
  std::vector<Seat> seats_;     // by slot
  std::vector<int32_t> asked_;  // slots, since the last Take

  // Slots that were passed on, each at most once: the step thread writes, the proposer's reads.
  std::vector<int32_t> passed_;
  std::atomic<uint32_t> pushed_ = 0, popped_ = 0;
  std::atomic<uint32_t> rings_ = 0;  // grows when there is something to do
  std::atomic<bool> stopping_ = false;

  // The proposer's thread.
  std::vector<int32_t> ending_;  // slots whose texts are learned when nothing else is to do
  speculate::Acceptance of_all_;
  bool has_warned_ = false;

  std::atomic<uint64_t> learned_ = 0, late_ = 0, busy_ns_ = 0;
  std::array<std::atomic<uint64_t>, limits::kDraftTokensMax + 1> lengths_ = {};

  std::thread thread_;
};

}  // namespace sluice::engine
