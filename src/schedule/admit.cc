// Scheduler: who joins the running sequences, with which blocks.
#include <algorithm>
#include <array>
#include <iterator>

#include "base/check.h"
#include "schedule/beam_search.h"
#include "schedule/scheduler.h"

namespace sluice::schedule {

void Scheduler::Admit(int64_t now_us, Budget* budget) {
  while (budget->tokens > 0 && !free_slots_.empty()) {
    Sequence* const sequence = NextWaiting();
    // Whoever comes first and does not fit holds up the others, so that it is not starved.
    if (sequence == nullptr || InFlight(sequence) || !TryAdmit(sequence, now_us, budget)) {
      return;
    }
  }
}

Sequence* Scheduler::NextWaiting() const {
  const bool shares = policy_->SharesByClient() && fair_share_.clients() > 1;
  Sequence* next = nullptr;
  for (Sequence* sequence : waiting_.items()) {
    if (WaitsForParent(*sequence) || FollowsIn(*sequence) || sequence->client->sits_out) continue;
    if (next == nullptr || FairShare::Before(*sequence->client, *next->client)) next = sequence;
    if (!shares) break;
  }
  return next;
}

bool Scheduler::WaitsForParent(const Sequence& sequence) const {
  if (sequence.fork_parent == 0 || sequence.scored < sequence.to_score()) return false;
  const Sequence* parent = Find(sequence.fork_parent);
  if (parent == nullptr) return false;
  return parent->state != SequenceState::kRunning || parent->planned < sequence.prompt_tokens - 1;
}

// All that run together with it, or none.
bool Scheduler::TryAdmit(Sequence* head, int64_t now_us, Budget* budget) {
  const SequenceId id = head->spec.id;
  const std::span<Sequence* const> together = Together(head);
  if (free_slots_.size() < together.size()) return false;
  if (blocked_ == id && blocked_version_ == kv_.availability_version()) return false;
  const size_t copies_before = copies_.size();
  std::array<Shared, kBeamsMax> shared;
  for (size_t i = 0; i < together.size(); ++i) {
    Sequence* const sequence = together[i];
    sequence->spec.key.weights_version = weights_version_;
    kv_.Open(sequence->spec.key, sequence->spec.prefix_cache, &sequence->kv);
    shared[i] = SharePrefix(sequence);
  }
  if (!MemoryForAdmission(head, false)) {
    for (Sequence* sequence : together) kv_.Close(&sequence->kv, 0);
    copies_.resize(copies_before);
    blocked_ = id;
    blocked_version_ = kv_.availability_version();
    return false;
  }
  for (size_t i = 0; i < together.size(); ++i) Join(together[i], shared[i], now_us);
  for (Sequence* sequence : together) SchedulePrefill(sequence, budget);
  return true;
}

void Scheduler::Join(Sequence* sequence, const Shared& shared, int64_t now_us) {
  if (shared.looked_up) {
    totals_.prefix_queries += sequence->tokens.size();
    totals_.prefix_hits += static_cast<uint64_t>(shared.tokens);
  }
  if (sequence->admitted_us < 0) {
    sequence->admitted_us = now_us;
    sequence->cached_tokens = shared.looked_up ? shared.tokens : 0;
    if (!sequence->tokens.empty()) {
      FairShare::Charge(sequence->prompt_tokens - shared.tokens, sequence->client);
    }
    --queued_;
    queued_tokens_ -= sequence->prompt_tokens;
  }
  // Steps extend these until the sequence ends.
  const int32_t longest = sequence->prompt_tokens + sequence->spec.max_tokens;
  sequence->tokens.reserve(longest);
  kv_.Reserve(&sequence->kv, longest + sequence->spec.device_drafts + options_.draft_spare);
  sequence->drafts.reserve(options_.max_draft_tokens);
  sequence->fork_parent = 0;
  sequence->computed = sequence->planned = shared.tokens;
  TakeSlot(sequence);
  waiting_.Remove(sequence);
  running_.Insert(sequence);
  ++sequence->client->running;
  sequence->state = SequenceState::kRunning;
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

// Whether the pools hold all known tokens of the sequence beside what the running ones still need
// for theirs and a little for what they will draw.
bool Scheduler::MemoryForAdmission(Sequence* const& sequence, bool soon) const {
  std::fill(need_.begin(), need_.end(), 0);
  for (const Sequence* member : Together(sequence)) {
    kv_.AddNeed(member->kv, static_cast<int32_t>(member->tokens.size()), options_.max_batch_tokens,
                need_);
  }
  for (const Sequence* other : running_.items()) {
    if (other->uncomputed() <= 1 + other->aside) continue;
    if (other->fork_parent != 0) continue;  // all but a block are its parent's
    kv_.AddNeed(other->kv, other->length(),
                std::min(options_.max_batch_tokens, other->uncomputed()), need_);
  }
  if (!running_.empty()) {
    for (size_t g = 0; g < need_.size(); ++g) need_[g] += 1 + kv_.groups()[g].num_blocks / 100;
  }
  return kv_.Covers(need_, soon);
}

}  // namespace sluice::schedule
