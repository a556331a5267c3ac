#include "engine/drafter.h"

#include <algorithm>
#include <chrono>
#include <exception>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"

namespace sluice::engine {

Drafter::Drafter(std::unique_ptr<speculate::Proposer> proposer, const DrafterOptions& options)
    : proposer_(std::move(proposer)),
      options_(options),
      desks_(options.slots),
      seats_(options.slots),
      passed_(options.slots) {
  for (Desk& desk : desks_) {
    // Not written to, so that the system gives memory only where sequences come to use it.
    desk.text = std::make_unique_for_overwrite<int32_t[]>(size_t{2} * options.sequence_tokens);
  }
  asked_.reserve(options.slots);
  ending_.reserve(options.slots);
  thread_ = std::thread([this] { Run(); });
}

Drafter::~Drafter() {
  stopping_ = true;
  ++rings_;
  rings_.notify_one();
  thread_.join();
}

int32_t Drafter::SlotOf(schedule::SequenceId id) const {
  const auto found =
      std::find_if(seats_.begin(), seats_.end(), [id](const Seat& seat) { return seat.id == id; });
  return found == seats_.end() ? -1 : static_cast<int32_t>(found - seats_.begin());
}

void Drafter::Pass(int32_t slot, State state) {
  desks_[slot].state.store(state, std::memory_order_release);
  const uint32_t at = pushed_.load(std::memory_order_relaxed);
  passed_[at % passed_.size()] = slot;
  pushed_.store(at + 1, std::memory_order_release);
}

bool Drafter::Prepare(const schedule::Sequence& sequence) {
  Desk& desk = desks_[sequence.slot];
  const schedule::SequenceSpec& spec = sequence.spec;
  const Seat seat = {spec.id, sequence.generation};
  if (seats_[sequence.slot] != seat) {
    seats_[sequence.slot] = seat;
    desk.starts = true;
    const auto quoted = spec.quoted == nullptr ? 0 : static_cast<int32_t>(spec.quoted->size());
    desk.opening = {.tokens_max = quoted + sequence.prompt_tokens + spec.max_tokens,
                    .key = spec.draft_key,
                    .quoted = quoted};
    CHECK(desk.opening.tokens_max <= 2 * options_.sequence_tokens, desk.opening.tokens_max);
    // Of a tree whose rows wait for masks only the first branch would be taken.
    desk.trees = options_.trees && !spec.masked;
    if (quoted > 0) std::copy(spec.quoted->begin(), spec.quoted->end(), desk.text.get());
    desk.size = quoted;
  }
  const int32_t quoted = desk.opening.quoted;
  std::copy(sequence.tokens.begin() + (desk.size - quoted), sequence.tokens.end(),
            desk.text.get() + desk.size);
  desk.size = quoted + static_cast<int32_t>(sequence.tokens.size());
  // The token behind the last draft is drawn in the same step.
  desk.room = std::min(spec.max_tokens - sequence.drawn() - 1, options_.drafts);
  return desk.room > 0;
}

void Drafter::Hand(const batch::StepResult& result, const schedule::CommitOutcome& outcome,
                   const schedule::Scheduler& scheduler, const speculate::DraftCosts& costs) {
  const uint32_t before = pushed_.load(std::memory_order_relaxed);
  int64_t deadline = -1;
  for (const schedule::SequenceOutcome& out : outcome.sequences) {
    if (out.finish != schedule::FinishReason::kNone) {
      const int32_t slot = SlotOf(out.id);
      if (slot >= 0 && IsOurs(desks_[slot])) {
        Desk& desk = desks_[slot];
        const int32_t known = desk.size - desk.opening.quoted;
        if (known == out.prompt_tokens + out.drawn - out.token_count) {
          for (int32_t i = 0; i < out.token_count; ++i) {
            desk.text[desk.size++] = result.tokens[out.token_begin + i].id;
          }
        }
      }
      End(out.id);
      continue;
    }
    const schedule::Sequence* const sequence = scheduler.Find(out.id);
    // Without a slot it was preempted by the plan in flight.
    if (out.token_count == 0 || sequence == nullptr || sequence->slot < 0) continue;
    if (sequence->spec.no_drafts) continue;
    Desk& desk = desks_[sequence->slot];
    // What the slot's last sequence said is learned within a moment, or it is left for later.
    const bool ends = desk.state.load(std::memory_order_relaxed) == State::kEnding;
    if (ends ? !IsBack(desk, &deadline) : !IsOurs(desk)) {
      late_.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    if (!Prepare(*sequence)) continue;
    desk.costs = costs;
    if (std::find(asked_.begin(), asked_.end(), sequence->slot) == asked_.end()) {
      asked_.push_back(sequence->slot);
    }
    Pass(sequence->slot, State::kAsked);
  }
  if (pushed_.load(std::memory_order_relaxed) == before) return;
  rings_.fetch_add(1, std::memory_order_release);
  rings_.notify_one();
}

void Drafter::End(schedule::SequenceId id) {
  const int32_t slot = SlotOf(id);
  if (slot < 0) return;
  seats_[slot] = {};
  if (!IsOurs(desks_[slot]) || desks_[slot].starts) return;
  Pass(slot, State::kEnding);
  rings_.fetch_add(1, std::memory_order_release);
  rings_.notify_one();
}

bool Drafter::IsBack(const Desk& desk, int64_t* deadline) const {
  while (!IsOurs(desk)) {
    const int64_t now = NowMicros();
    if (*deadline < 0) *deadline = now + options_.wait_us;
    if (now >= *deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

void Drafter::Take(schedule::Scheduler* scheduler) {
  int64_t deadline = -1;
  for (const int32_t slot : asked_) {
    if (seats_[slot].id == 0) continue;  // it has ended
    if (IsBack(desks_[slot], &deadline)) {
      Attach(slot, scheduler);
    } else {
      late_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  asked_.clear();
}

void Drafter::Attach(int32_t slot, schedule::Scheduler* scheduler) {
  const Desk& desk = desks_[slot];
  const Seat& seat = seats_[slot];
  const schedule::Sequence* const sequence = scheduler->Find(seat.id);
  if (desk.count == 0 || sequence == nullptr || sequence->generation != seat.generation) return;
  // More was committed before the drafts were there.
  if (sequence->tokens.size() + desk.opening.quoted != static_cast<size_t>(desk.size)) return;
  // Where a step was launched behind this one, what it draws decides which drafts there will be.
  const auto parents = std::span(desk.parents).first(desk.trees ? desk.count : 0);
  if (!scheduler->AttachDrafts(seat.id, std::span(desk.drafts).first(desk.count),
                               /*forced=*/false, parents)) {
    scheduler->AwaitCommit(seat.id);
  }
}

DraftingTotals Drafter::totals() const {
  DraftingTotals totals;
  totals.learned = learned_.load(std::memory_order_acquire);
  totals.late = late_.load(std::memory_order_relaxed);
  totals.seconds = 1e-9 * static_cast<double>(busy_ns_.load(std::memory_order_relaxed));
  for (size_t i = 0; i < lengths_.size(); ++i) {
    totals.lengths[i] = lengths_[i].load(std::memory_order_acquire);
  }
  return totals;
}

bool Drafter::Pop(int32_t* slot) {
  const uint32_t at = popped_.load(std::memory_order_relaxed);
  if (at == pushed_.load(std::memory_order_acquire)) return false;
  *slot = passed_[at % passed_.size()];
  popped_.store(at + 1, std::memory_order_relaxed);
  return true;
}

void Drafter::Run() {
  while (!stopping_) {
    const uint32_t rings = rings_.load(std::memory_order_acquire);
    int32_t slot = 0;
    if (Pop(&slot)) {
      Serve(slot);
    } else if (!ending_.empty()) {
      LearnPiece();
    } else {
      rings_.wait(rings, std::memory_order_acquire);
    }
  }
}

// A proposer that fails costs its sequence the drafts, and nothing else.
template <class Work>
void Drafter::Guard(Desk* desk, Work&& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    if (!has_warned_) LogWarning("a sequence goes on without drafts: ", error.what());
  } catch (...) {
    if (!has_warned_) LogWarning("a sequence goes on without drafts: their proposer failed");
  }
  has_warned_ = true;
  desk->failed = true;
  desk->count = 0;
}

void Drafter::Serve(int32_t slot) {
  Desk& desk = desks_[slot];
  if (desk.state.load(std::memory_order_acquire) == State::kEnding) {
    ending_.push_back(slot);
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  Guard(&desk, [&] { Propose(slot, &desk); });
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
  busy_ns_.fetch_add(static_cast<uint64_t>(took.count()), std::memory_order_relaxed);
  const int32_t count = desk.count;
  desk.state.store(State::kOurs, std::memory_order_release);
  lengths_[count].fetch_add(1, std::memory_order_release);
}

void Drafter::Propose(int32_t slot, Desk* desk) {
  desk->count = 0;
  if (desk->starts) {
    desk->starts = desk->failed = false;
    desk->acceptance.Start(of_all_);
    proposer_->Start(slot, desk->opening);
  }
  if (desk->failed) return;
  const std::span<const int32_t> text(desk->text.get(), desk->size);
  desk->acceptance.Observe(text, &of_all_);
  const auto room = std::span(desk->drafts).first(desk->room);
  const speculate::Draft draft = proposer_->Propose(slot, text, room);
  if (desk->trees) return ProposeTree(slot, desk, draft);
  desk->acceptance.Propose(desk->size, draft.grade, room.first(draft.count));
  desk->count =
      options_.adapt ? desk->acceptance.Choose(draft.grade, draft.count, desk->costs) : draft.count;
}

void Drafter::ProposeTree(int32_t slot, Desk* desk, const speculate::Draft& draft) {
  std::array<speculate::Aside, speculate::kAsidesMax> asides;
  const auto found =
      std::span(asides).first(draft.count > 0 ? proposer_->ProposeAside(slot, asides) : 0);
  std::array<int32_t, limits::kDraftTokensMax> instead;
  instead.fill(-1);
  for (const speculate::Aside& aside : found) {
    if (aside.parent < draft.count) instead[aside.parent] = aside.token;
  }
  const auto chain = std::span(desk->drafts).first(draft.count);
  desk->acceptance.Propose(desk->size, draft.grade, chain, instead);
  const speculate::DraftTree tree =
      speculate::ChooseTree(chain, draft.grade, found, desk->acceptance,
                            options_.adapt ? &desk->costs : nullptr, desk->room);
  desk->drafts = tree.tokens;
  desk->parents = tree.parents;
  desk->count = tree.count;
}

void Drafter::LearnPiece() {
  const int32_t slot = ending_.back();
  Desk& desk = desks_[slot];
  bool done = true;
  Guard(&desk, [&] {
    if (!desk.failed)
      done = proposer_->End(slot, {desk.text.get(), static_cast<size_t>(desk.size)});
  });
  if (!done) return;
  ending_.pop_back();
  desk.count = 0;
  const bool learned = !desk.failed;
  desk.state.store(State::kOurs, std::memory_order_release);
  if (learned) learned_.fetch_add(1, std::memory_order_release);
}

}  // namespace sluice::engine
