#include "engine/head_drafts.h"

#include <cmath>

namespace sluice::engine {
namespace {

// A head's drafts are all of one kind, that which is expected to be right four times of five until
// it is known better.
constexpr int32_t kGrade = 1;
// So many losses in a row, a draft at a time, and a sequence is given up.
constexpr int32_t kPatience = 8;
// Where drafts do not pay, an arrival tries them once in so many steps: the few steps in which it
// does cost a step of each other sequence, too, so it is their time that counts.
constexpr int32_t kProbe = 1024;

}  // namespace

HeadDrafts::HeadDrafts(int32_t slots, int32_t drafts) : drafts_(drafts), seats_(slots) {}

int32_t HeadDrafts::ForArrival() {
  // A step that is to be without drafts, to measure it, says nothing of what they cost.
  if (rests_) return 0;
  if (std::isinf(costs_[0]) || of_all_.Choose(kGrade, drafts_, costs_) > 0) return drafts_;
  if (unprobed_ < kProbe) return 0;
  unprobed_ = 0;
  return drafts_;
}

// Below 0: it is given up.
int32_t HeadDrafts::NumberFor(Seat* seat, const speculate::DraftCosts& costs) const {
  if (std::isinf(costs[0])) return 0;
  const int32_t best = seat->acceptance.Choose(kGrade, drafts_, costs);
  seat->losses = best > 0 ? 0 : seat->losses + 1;
  if (best > 0) return best;
  return seat->losses < kPatience ? 1 : -1;
}

void HeadDrafts::Choose(const schedule::CommitOutcome& outcome, const speculate::DraftCosts& costs,
                        bool rests, schedule::Scheduler* scheduler) {
  rests_ = rests;
  if (unprobed_ < kProbe) ++unprobed_;
  if (!std::isinf(costs[0])) costs_ = costs;
  for (const schedule::SequenceOutcome& out : outcome.sequences) {
    const schedule::Sequence* const sequence = scheduler->Find(out.id);
    // Without a slot it was preempted by the plan in flight.
    if (sequence == nullptr || sequence->slot < 0 || sequence->spec.device_drafts == 0) continue;
    Seat& seat = seats_[sequence->slot];
    if (seat.id != out.id) {
      seat.id = out.id;
      seat.losses = 0;
      seat.acceptance.Start(of_all_);
    }
    seat.acceptance.Verified(kGrade, out.drafted, out.accepted, &of_all_);
    const int32_t number = rests ? -1 : NumberFor(&seat, costs);
    ++totals_.lengths[number > 0 ? number : 0];
    scheduler->LimitDrafts(out.id, number);
  }
}

}  // namespace sluice::engine
