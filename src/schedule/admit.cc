// Scheduler: who joins the running sequences, with which blocks.
#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "schedule/scheduler.h"

namespace sluice::schedule {

void Scheduler::Admit(int64_t now_us, Budget* budget) {
  for (size_t i = 0; i < waiting_.size();) {
    if (budget->tokens <= 0 || free_slots_.empty()) return;
    Sequence* sequence = waiting_[i];
    if (WaitsForParent(*sequence)) {
      ++i;
      continue;
    }
    // Whoever comes first and does not fit holds up the others, so that it is not starved.
    if (sequence->in_flight > 0 || !TryAdmit(sequence, now_us, budget)) return;
  }
}

bool Scheduler::WaitsForParent(const Sequence& sequence) const {
  if (sequence.fork_parent == 0 || sequence.scored < sequence.to_score()) return false;
  const Sequence* parent = Find(sequence.fork_parent);
  if (parent == nullptr) return false;
  return parent->state != SequenceState::kRunning || parent->planned < sequence.prompt_tokens - 1;
}

bool Scheduler::TryAdmit(Sequence* sequence, int64_t now_us, Budget* budget) {
  const SequenceId id = sequence->spec.id;
  if (blocked_ == id && blocked_version_ == kv_.availability_version()) return false;
  const size_t copies_before = copies_.size();
  sequence->spec.key.weights_version = weights_version_;
  kv_.Open(sequence->spec.key, sequence->spec.prefix_cache, &sequence->kv);
  const Shared shared = sequence->spec.await_kv ? Shared{} : SharePrefix(sequence);
  if (!MemoryForAdmission(*sequence, false)) {
    kv_.Close(&sequence->kv, 0);
    copies_.resize(copies_before);
    blocked_ = id;
    blocked_version_ = kv_.availability_version();
    return false;
  }
  if (shared.looked_up) {
    totals_.prefix_queries += sequence->tokens.size();
    totals_.prefix_hits += static_cast<uint64_t>(shared.tokens);
  }
  if (sequence->admitted_us < 0) {
    sequence->admitted_us = now_us;
    sequence->cached_tokens = shared.looked_up ? shared.tokens : 0;
    --queued_;
  }
  // Steps extend these until the sequence ends.
  const int32_t longest = sequence->prompt_tokens + sequence->spec.max_tokens;
  sequence->tokens.reserve(longest);
  kv_.Reserve(&sequence->kv, longest + sequence->spec.device_drafts);
  sequence->drafts.reserve(options_.max_draft_tokens);
  sequence->fork_parent = 0;
  sequence->computed = sequence->planned = shared.tokens;
  TakeSlot(sequence);
  waiting_.Remove(sequence);
  running_.Insert(sequence);
  if (sequence->spec.await_kv) {
    AllocateAwaited(sequence);
    sequence->state = SequenceState::kAwaitingKv;
    ++awaiting_kv_;
  } else {
    sequence->state = SequenceState::kRunning;
    SchedulePrefill(sequence, budget);
  }
  return true;
}

// Slots whose tokens are counted go to sequences with penalties, while there are others for those
// without.
void Scheduler::TakeSlot(Sequence* sequence) {
  const bool penalised = batch::HasPenalties(sequence->spec.sampling);
  const auto found = std::find_if(free_slots_.rbegin(), free_slots_.rend(), [&](int32_t slot) {
    return (slot < options_.counted_slots) == penalised;
  });
  const auto taken = found != free_slots_.rend() ? std::prev(found.base()) : free_slots_.end() - 1;
  sequence->slot = *taken;
  free_slots_.erase(taken);
  by_slot_[sequence->slot] = sequence;
  sequence->drawn_in_slot = false;
  sequence->no_overlap =
      sequence->spec.no_overlap || (penalised && sequence->slot >= options_.counted_slots);
}

// Gives the sequence the blocks that hold the beginning of its tokens already.
Scheduler::Shared Scheduler::SharePrefix(Sequence* sequence) {
  const int32_t length = static_cast<int32_t>(sequence->tokens.size());
  const bool scored = sequence->scored >= sequence->to_score();
  if (const Sequence* parent = Find(sequence->fork_parent);
      parent != nullptr && parent->spec.key == sequence->spec.key &&
      length == sequence->prompt_tokens && length > 1 && scored &&
      kv_.Fork(parent->kv, length - 1, step_, &sequence->kv, &copies_)) {
    return {length - 1, false};
  }
  // One token is left to compute, for its logits; so is every row that is still to be scored.
  const int32_t limit = scored ? length - 1 : sequence->scored;
  return {kv_.Match(sequence->tokens, limit, &sequence->kv), sequence->kv.cacheable};
}

// Blocks for tokens whose KV comes from elsewhere, as if they had been computed in chunks.
void Scheduler::AllocateAwaited(Sequence* sequence) {
  const int32_t length = static_cast<int32_t>(sequence->tokens.size());
  for (int32_t done = 0; done < length;) {
    done = std::min(length, done + options_.chunk_tokens);
    CHECK(kv_.Grow(&sequence->kv, done), "length=", length);
    kv_.LetGo(&sequence->kv, std::min(done, length - 1), 0);
  }
}

// Whether the pools hold all known tokens of the sequence beside what the running ones still need
// for theirs and a little for what they will draw.
bool Scheduler::MemoryForAdmission(const Sequence& sequence, bool soon) const {
  std::fill(need_.begin(), need_.end(), 0);
  kv_.AddNeed(sequence.kv, static_cast<int32_t>(sequence.tokens.size()), options_.chunk_tokens,
              need_);
  for (const Sequence* other : running_.items()) {
    if (other->state != SequenceState::kRunning || other->uncomputed() <= 1) continue;
    kv_.AddNeed(other->kv, other->length(), std::min(options_.chunk_tokens, other->uncomputed()),
                need_);
  }
  if (!running_.empty()) {
    for (size_t g = 0; g < need_.size(); ++g) need_[g] += 1 + kv_.groups()[g].num_blocks / 100;
  }
  return kv_.Covers(need_, soon);
}

}  // namespace sluice::schedule
