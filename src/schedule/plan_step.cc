// Scheduler::Plan: what the next step computes, in rank order, under its limits.
#include <algorithm>

#include "base/check.h"
#include "schedule/beam_search.h"
#include "schedule/scheduler.h"

namespace sluice::schedule {

// Whether the runner may ever guess what the sequence draws. Which rows are masked, and which edits
// they have, is decided by the tokens before them, so those must be known here. Where there are
// states, so must the position: a step ends at a border between their blocks.
bool Scheduler::IsGuessed(const Sequence& sequence) const {
  const bool begun = first_drafts_ >= 0 || sequence.drawn() > 0;
  return begun && sequence.spec.device_drafts > 0 && !sequence.spec.masked &&
         !sequence.no_overlap && !HasStates();
}

// Guesses of the runner behind the next step of the sequence that are worth it.
int32_t Scheduler::WorthyDrafts(const Sequence& sequence) const {
  return sequence.drawn() == 0 ? std::min(sequence.worthy_drafts, first_drafts_)
                               : sequence.worthy_drafts;
}

// Drafts of a step behind others of the sequence, at most.
int32_t Scheduler::DeviceDrafts(const Sequence& sequence, int32_t drawn) const {
  const bool guessed = IsGuessed(sequence) && sequence.spec.sampling.MayEnd(drawn);
  return guessed ? std::min(sequence.spec.device_drafts, options_.max_draft_tokens) : 0;
}

// Guesses of a step that computes the sequence up to `end`, all or none. The token that is
// drawn and all but the last of them may have KV, and nobody gives up a block for it.
int32_t Scheduler::RoomForGuesses(Sequence* sequence, int32_t end) {
  const int32_t guesses = DeviceDrafts(*sequence, sequence->drawn() + sequence->unknown_tokens + 1);
  if (guesses == 0 || WorthyDrafts(*sequence) <= 0) return 0;
  if (end < sequence->length() || sequence->done_drawing()) return 0;
  const int32_t most = end + guesses + options_.draft_spare;
  if (most > options_.max_model_len || !kv_.Grow(&sequence->kv, most)) return 0;
  return guesses;
}

// Whether the next step can compute something for a sequence.
bool Scheduler::Plannable(const Sequence& sequence) const {
  if (sequence.state != SequenceState::kRunning || sequence.uncomputed() == 0) return false;
  // Of a client that sits out some may decode beside the others.
  const bool decodes = sequence.uncomputed() == 1 + sequence.aside || sequence.fork_parent != 0;
  if (sequence.waits_turn || (sequence.client->sits_out && !decodes)) return false;
  if (sequence.in_flight > 0 && (sequence.awaits_commit || sequence.no_overlap)) return false;
  if (sequence.in_flight > 0 && options_.reads_guesses &&
      (sequence.guessed > 0 || sequence.unsure > 0)) {
    return false;
  }
  if (sequence.unsure > 0 && DeviceDrafts(sequence, sequence.drawn()) == 0) return false;
  return sequence.spec.max_tokens == 0 || !sequence.done_drawing();
}

bool Scheduler::Decodes(const Sequence& sequence) const {
  return Plannable(sequence) &&
         (sequence.uncomputed() == 1 + sequence.aside || sequence.fork_parent != 0);
}

void Scheduler::Plan(int64_t now_us, batch::BatchPlan* plan) {
  CHECK(in_flight_.size() <= 1, "two plans are uncommitted");
  ++step_;
  scheduled_.clear();
  copies_.clear();
  PreemptForUrgent();
  if (policy_->SharesByClient()) PreemptForShare();
  ScheduleAll(now_us, ChooseTurns());
  // Those who are due may have to wait for memory, or for a step in flight: nobody else does.
  const bool in_vain = scheduled_.empty() && some_sit_out_;
  EndTurns();
  if (in_vain) ScheduleAll(now_us, options_.max_batch_tokens);
  FillPlan(plan);
}

void Scheduler::ScheduleAll(int64_t now_us, int32_t tokens) {
  Budget budget{.tokens = tokens, .extra_rows = options_.max_extra_rows};
  ScheduleRunning(&budget);
  if (!budget.memory_short) Admit(now_us, &budget);
}

void Scheduler::PreemptForUrgent() {
  Sequence* const urgent = NextWaiting();
  if (urgent == nullptr || InFlight(urgent)) return;
  const size_t slots = Together(urgent).size();
  for (size_t i = running_.size(); i-- > 0;) {
    Sequence* victim = running_[i];
    if (!policy_->MayPreempt(*urgent, *victim)) continue;
    const bool slots_soon = free_slots_.size() + slot_releases_.size() >= slots;
    if (slots_soon && MemoryForAdmission(urgent, true)) return;
    Preempt(victim);
    i = std::min(i, running_.size());  // others may have gone with it
  }
}

// A client that has no slot gets one from the client that has most, so that nobody waits for an
// answer of others to end.
void Scheduler::PreemptForShare() {
  if (fair_share_.clients() < 2) return;
  Sequence* const next = NextWaiting();
  if (next == nullptr || InFlight(next) || next->client->running > 0) return;
  if (free_slots_.size() + slot_releases_.size() >= Together(next).size()) return;
  Sequence* victim = nullptr;
  for (Sequence* sequence : running_.items()) {
    if (sequence->client->running < 2) continue;
    // Of one client the last in rank.
    if (victim == nullptr || sequence->client->running >= victim->client->running) {
      victim = sequence;
    }
  }
  if (victim != nullptr) Preempt(victim);
}

void Scheduler::Preempt(Sequence* sequence) {
  if (sequence->beams != nullptr) {
    sequence->beams->search.ForgetRows();
    sequence->beams->stuck.clear();
  }
  for (Sequence* member : Together(sequence)) {
    ++totals_.preemptions;
    Requeue(member);
  }
}

void Scheduler::ScheduleRunning(Budget* budget) {
  // A token for each that decodes is set aside before prompts take the rest. Drafts of many could
  // else take every step whole, and no prompt would ever go on: some tokens are kept from them.
  bool prompts = !waiting_.items().empty() && !free_slots_.empty();
  for (const Sequence* sequence : running_.items()) {
    if (Decodes(*sequence)) {
      --budget->tokens;
    } else {
      prompts |= Plannable(*sequence);
    }
  }
  if (prompts) budget->kept = std::min(kPromptTokensMin, options_.max_batch_tokens / 3);
  // The list shrinks behind `i` when memory is taken from those that come later.
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence* sequence = running_[i];
    if (Decodes(*sequence)) {
      if (sequence->fork_parent != 0 && !ForkBeam(sequence, budget)) {
        ++budget->tokens;
        continue;
      }
      ScheduleDecode(sequence, budget);
    } else if (Plannable(*sequence)) {
      SchedulePrefill(sequence, budget);
    }
  }
}

void Scheduler::ScheduleDecode(Sequence* sequence, Budget* budget) {
  kv_.LetGo(&sequence->kv, sequence->planned - sequence->unsure, sequence->last_step);
  // Where the step has no room for all that is computed again, it draws nothing.
  const int32_t again = std::clamp(budget->tokens, 0, sequence->aside), rows = 1 + again;
  const int32_t length = sequence->planned + rows;
  auto drafts = static_cast<int32_t>(sequence->drafts.size());
  // A sequence has no more rows in a step than with as many drafts as it may have.
  drafts = again < sequence->aside ? 0 : std::min(drafts, options_.max_draft_tokens - again);
  const bool known =
      drafts == 0 && !options_.reads_guesses && sequence->drawn_in_slot && sequence->guessed > 0;
  if (known) {
    drafts = std::min(
        {DeviceDrafts(*sequence, sequence->drawn()), sequence->guessed, WorthyDrafts(*sequence)});
  }
  if (drafts == 0 && kv_.HasRoom(sequence->kv, length)) {
    budget->tokens -= again;
    scheduled_.push_back({sequence, rows, 0, false, RoomForGuesses(sequence, length)});
    return;
  }
  if (!MakeRoom(sequence, length, budget)) {
    ++budget->tokens;
    return;
  }
  drafts = std::min(drafts,
                    sequence->spec.max_tokens - (sequence->length() - sequence->prompt_tokens) - 1);
  budget->tokens -= again;
  drafts = std::max(0, std::min({drafts, budget->tokens - budget->kept, budget->extra_rows}));
  drafts = batch::StepEnd(kv_.groups(), sequence->planned, length + drafts) - length;
  drafts = kv_.GrowableTo(sequence->kv, length + drafts, false) - length;
  CHECK(kv_.Grow(&sequence->kv, length + drafts), "length=", length);
  budget->tokens -= drafts;
  budget->extra_rows -= drafts;
  scheduled_.push_back(
      {sequence, rows + drafts, drafts, known, RoomForGuesses(sequence, length + drafts)});
}

void Scheduler::SchedulePrefill(Sequence* sequence, Budget* budget) {
  int32_t chunk = ChunkOf(*sequence, *budget);
  if (chunk <= 0) return;
  const int32_t planned = sequence->planned;
  const bool prompt = sequence->uncomputed() > 1;
  if (sequence->spec.whole_prompt && chunk < sequence->uncomputed()) return;
  kv_.LetGo(&sequence->kv, planned, sequence->last_step);
  if (!MakeRoom(sequence, planned + (sequence->spec.whole_prompt ? chunk : 1), budget)) return;
  chunk = kv_.GrowableTo(sequence->kv, planned + chunk, false) - planned;
  CHECK(chunk > 0 && kv_.Grow(&sequence->kv, planned + chunk), "chunk=", chunk);
  budget->tokens -= chunk;
  const int32_t first_row = std::max(planned, sequence->scored);
  budget->extra_rows -= std::max(0, std::min(planned + chunk, sequence->to_score()) - first_row);
  scheduled_.push_back({.sequence = sequence,
                        .query = chunk,
                        .drafts = 0,
                        .guesses = RoomForGuesses(sequence, planned + chunk),
                        .prompt = prompt});
}

int32_t Scheduler::ChunkOf(const Sequence& sequence, const Budget& budget) const {
  const int32_t most = std::min(sequence.uncomputed(), budget.tokens);
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
    if (!PreemptBehind(*sequence, budget)) return false;
  }
  return true;
}

// Takes the memory of the running sequence of the largest rank, and of those that run together with
// it. False: no other has a larger rank than `sequence`.
bool Scheduler::PreemptBehind(const Sequence& sequence, Budget* budget) {
  for (size_t i = running_.size(); i-- > 0 && RankList::Before(&sequence, running_[i]);) {
    Sequence* const victim = running_[i];
    if (victim->beams != nullptr && victim->beams == sequence.beams) continue;
    for (const Sequence* member : Together(victim)) budget->tokens += Decodes(*member) ? 1 : 0;
    Preempt(victim);
    return true;
  }
  return false;
}

}  // namespace sluice::schedule
