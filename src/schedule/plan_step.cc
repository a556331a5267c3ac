// Scheduler::Plan: what the next step computes, in rank order, under its limits.
#include <algorithm>

#include "base/check.h"
#include "schedule/scheduler.h"

namespace sluice::schedule {

// Whether the runner may ever guess what the sequence draws. Which rows are masked, and which edits
// they have, is decided by the tokens before them, so those must be known here. Where there are
// states, so must the position: a step ends at a border between their blocks.
bool Scheduler::IsGuessed(const Sequence& sequence) const {
  return sequence.spec.device_drafts > 0 && !sequence.spec.masked && !sequence.no_overlap &&
         !HasStates();
}

// Drafts of a step behind others of the sequence, at most.
int32_t Scheduler::DeviceDrafts(const Sequence& sequence, int32_t drawn) const {
  const bool guessed = IsGuessed(sequence) && drawn >= sequence.spec.sampling.min_tokens;
  return guessed ? std::min(sequence.spec.device_drafts, options_.max_draft_tokens) : 0;
}

// Guesses of a step that computes the sequence up to `end`, all or none. The token that is
// drawn and all but the last of them may have KV, and nobody gives up a block for it.
int32_t Scheduler::RoomForGuesses(Sequence* sequence, int32_t end) {
  const int32_t guesses = DeviceDrafts(*sequence, sequence->drawn() + sequence->unknown_tokens + 1);
  if (guesses == 0 || sequence->worthy_drafts == 0) return 0;
  if (end < sequence->length() || sequence->done_drawing()) return 0;
  const int32_t most = end + guesses;
  if (most > options_.max_model_len || !kv_.Grow(&sequence->kv, most)) return 0;
  return guesses;
}

// Whether the next step can compute something for a sequence.
bool Scheduler::Plannable(const Sequence& sequence) const {
  if (sequence.state != SequenceState::kRunning || sequence.uncomputed() == 0) return false;
  if (sequence.in_flight > 0 && (sequence.awaits_commit || sequence.no_overlap)) return false;
  if (sequence.unsure > 0 && DeviceDrafts(sequence, sequence.drawn()) == 0) return false;
  return sequence.spec.max_tokens == 0 || !sequence.done_drawing();
}

bool Scheduler::Decodes(const Sequence& sequence) const {
  return Plannable(sequence) && sequence.uncomputed() == 1;
}

void Scheduler::Plan(int64_t now_us, batch::BatchPlan* plan) {
  CHECK(in_flight_.size() <= 1, "two plans are uncommitted");
  ++step_;
  scheduled_.clear();
  copies_.clear();
  PreemptForUrgent();
  Budget budget{.tokens = options_.max_batch_tokens, .extra_rows = options_.max_extra_rows};
  ScheduleRunning(&budget);
  if (!budget.memory_short) Admit(now_us, &budget);
  FillPlan(plan);
}

void Scheduler::PreemptForUrgent() {
  const auto head = std::find_if(waiting_.items().begin(), waiting_.items().end(),
                                 [this](const Sequence* s) { return !WaitsForParent(*s); });
  if (head == waiting_.items().end() || (*head)->in_flight > 0) return;
  const Sequence& urgent = **head;
  for (size_t i = running_.size(); i-- > 0;) {
    Sequence* victim = running_[i];
    if (victim->state != SequenceState::kRunning || !policy_->MayPreempt(urgent, *victim)) continue;
    const bool slot_soon = !free_slots_.empty() || !slot_releases_.empty();
    if (slot_soon && MemoryForAdmission(urgent, true)) return;
    Preempt(victim);
  }
}

void Scheduler::Preempt(Sequence* sequence) {
  ++totals_.preemptions;
  Requeue(sequence);
}

void Scheduler::ScheduleRunning(Budget* budget) {
  // A token for each that decodes is set aside before prompts take the rest.
  for (const Sequence* sequence : running_.items()) budget->tokens -= Decodes(*sequence) ? 1 : 0;
  // The list shrinks behind `i` when memory is taken from those that come later.
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence* sequence = running_[i];
    if (Decodes(*sequence)) {
      ScheduleDecode(sequence, budget);
    } else if (Plannable(*sequence)) {
      SchedulePrefill(sequence, budget);
    }
  }
}

void Scheduler::ScheduleDecode(Sequence* sequence, Budget* budget) {
  kv_.LetGo(&sequence->kv, sequence->planned - sequence->unsure, sequence->last_step);
  const int32_t length = sequence->planned + 1;
  auto drafts = static_cast<int32_t>(sequence->drafts.size());
  const bool known = drafts == 0 && sequence->drawn_in_slot && sequence->guessed > 0;
  if (known) {
    drafts = std::min(
        {DeviceDrafts(*sequence, sequence->drawn()), sequence->guessed, sequence->worthy_drafts});
  }
  if (drafts == 0 && kv_.HasRoom(sequence->kv, length)) {
    scheduled_.push_back({sequence, 1, 0, false, RoomForGuesses(sequence, length)});
    return;
  }
  if (!MakeRoom(sequence, length, budget)) {
    ++budget->tokens;
    return;
  }
  drafts = std::min(drafts,
                    sequence->spec.max_tokens - (sequence->length() - sequence->prompt_tokens) - 1);
  drafts = std::max(0, std::min({drafts, budget->tokens, budget->extra_rows}));
  drafts = batch::StepEnd(kv_.groups(), sequence->planned, length + drafts) - length;
  drafts = kv_.GrowableTo(sequence->kv, length + drafts, false) - length;
  CHECK(kv_.Grow(&sequence->kv, length + drafts), "length=", length);
  budget->tokens -= drafts;
  budget->extra_rows -= drafts;
  scheduled_.push_back(
      {sequence, 1 + drafts, drafts, known, RoomForGuesses(sequence, length + drafts)});
}

void Scheduler::SchedulePrefill(Sequence* sequence, Budget* budget) {
  int32_t chunk = ChunkOf(*sequence, *budget);
  if (chunk <= 0) return;
  const int32_t planned = sequence->planned;
  if (sequence->spec.whole_prompt && chunk < sequence->uncomputed()) return;
  kv_.LetGo(&sequence->kv, planned, sequence->last_step);
  if (!MakeRoom(sequence, planned + (sequence->spec.whole_prompt ? chunk : 1), budget)) return;
  chunk = kv_.GrowableTo(sequence->kv, planned + chunk, false) - planned;
  CHECK(chunk > 0 && kv_.Grow(&sequence->kv, planned + chunk), "chunk=", chunk);
  budget->tokens -= chunk;
  const int32_t first_row = std::max(planned, sequence->scored);
  budget->extra_rows -= std::max(0, std::min(planned + chunk, sequence->to_score()) - first_row);
  scheduled_.push_back({sequence, chunk, 0, false, RoomForGuesses(sequence, planned + chunk)});
}

int32_t Scheduler::ChunkOf(const Sequence& sequence, const Budget& budget) const {
  const int32_t most = std::min({sequence.uncomputed(), options_.chunk_tokens, budget.tokens});
  const int32_t chunk =
      batch::StepEnd(kv_.groups(), sequence.planned, sequence.planned + most) - sequence.planned;
  const int32_t first_row = std::max(sequence.planned, sequence.scored);
  const int32_t rows = std::min(sequence.planned + chunk, sequence.to_score()) - first_row;
  if (rows <= budget.extra_rows) return chunk;
  return first_row + budget.extra_rows - sequence.planned;
}

// Makes sure that the tables of `sequence` can grow to `length`, taking memory from running
// sequences of larger rank. False: not in this step.
bool Scheduler::MakeRoom(Sequence* sequence, int32_t length, Budget* budget) {
  while (kv_.GrowableTo(sequence->kv, length, false) < length) {
    budget->memory_short = true;
    if (kv_.GrowableTo(sequence->kv, length, true) >= length) return false;
    Sequence* victim = nullptr;
    for (size_t i = running_.size(); i-- > 0 && RankList::Before(sequence, running_[i]);) {
      if (running_[i]->state != SequenceState::kRunning) continue;
      victim = running_[i];
      break;
    }
    if (victim == nullptr) return false;
    budget->tokens += Decodes(*victim) ? 1 : 0;
    Preempt(victim);
  }
  return true;
}

}  // namespace sluice::schedule
