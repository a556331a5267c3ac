#include "engine/drafter.h"

#include <algorithm>

namespace sluice::engine {

void Drafter::Propose(const schedule::CommitOutcome& outcome, schedule::Scheduler* scheduler) {
  seats_.resize(scheduler->options().max_num_seqs);
  for (const schedule::SequenceOutcome& out : outcome.sequences) {
    if (out.finish != schedule::FinishReason::kNone || out.token_count == 0) continue;
    const schedule::Sequence* const sequence = scheduler->Find(out.id);
    if (sequence == nullptr || sequence->slot < 0) continue;  // preempted by the plan in flight
    const Seat seat = {out.id, sequence->generation};
    if (seats_[sequence->slot] != seat) {
      seats_[sequence->slot] = seat;
      proposer_->Start(sequence->slot, sequence->prompt_tokens + sequence->spec.max_tokens);
    }
    // The token behind the last draft is drawn in the same step.
    const int room = sequence->spec.max_tokens - sequence->drawn() - 1;
    const int32_t count =
        proposer_->Propose(sequence->slot, sequence->tokens,
                           std::span(drafts_).first(std::clamp(room, 0, drafts_max_)));
    if (count == 0) continue;
    // Where a step was launched behind this one, what it draws decides which drafts there will be.
    if (!scheduler->AttachDrafts(out.id, std::span(drafts_).first(count))) {
      scheduler->AwaitCommit(out.id);
    }
  }
}

}  // namespace sluice::engine
