#include "speculate/suffix_proposer.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"
#include "sluice/limits.h"
#include "speculate/draft_length.h"

namespace sluice::speculate {
namespace {

// By the length of the end that was found again: 2 tokens, up to 4, up to 8, more.
int32_t GradeOf(int32_t length) {
  const auto width = static_cast<int32_t>(std::bit_width(static_cast<uint32_t>(length - 1)));
  return std::clamp(width - 1, 0, kDraftGrades - 1);
}

}  // namespace

struct SuffixProposer::Best {
  double expected = 0;
  Draft draft;
  const SuffixAutomaton* source = nullptr;
  SuffixAutomaton::Match match;
  int32_t ends = 0;
  std::array<int32_t, limits::kDraftTokensMax> scratch;
};

SuffixProposer::SuffixProposer(const ProposerLimits& limits) : SuffixProposer(limits, Memory()) {}

SuffixProposer::SuffixProposer(const ProposerLimits& limits, const Memory& memory)
    : memory_(memory) {
  CHECK(limits.slots > 0 && limits.tokens_max > 0, "slots=", limits.slots);
  const int32_t share = SuffixAutomaton::TokensIn(memory.own_bytes / limits.slots);
  const int32_t tokens = std::max(1, std::min(share, limits.tokens_max));
  for (int32_t i = 0; i < limits.slots; ++i) {
    Slot& slot = slots_.emplace_back();
    slot.own = std::make_unique<SuffixAutomaton>(tokens);
    slot.cursors.resize(memory.parts);
  }
  parts_.resize(memory.parts);
  for (Part& part : parts_) {
    part.texts = std::make_unique<SuffixAutomaton>(SuffixAutomaton::TokensIn(memory.part_bytes));
  }
}

void SuffixProposer::Start(int32_t slot, const Opening& opening) {
  CHECK(slot >= 0 && slot < static_cast<int32_t>(slots_.size()), "slot ", slot);
  Slot& it = slots_[slot];
  it.own->Clear(opening.tokens_max);
  it.opening = opening;
  it.begin = it.seen = it.learned = 0;
  it.text = SuffixAutomaton::kRoot;
  std::fill(it.cursors.begin(), it.cursors.end(), Cursor());
  it.part = -1;
  it.source = nullptr;
}

void SuffixProposer::TakeIn(Slot* slot, std::span<const int32_t> tokens) {
  int32_t left = kTokensOfCall;
  while (slot->seen < static_cast<int32_t>(tokens.size()) && left-- > 0) {
    const auto text = slot->own->Extend(slot->text, tokens[slot->seen]);
    if (text != SuffixAutomaton::kFull) {
      slot->text = text;
      ++slot->seen;
      continue;
    }
    // Half of what it held, at most, so that it has room for as many again.
    const int32_t held = slot->seen - slot->begin;
    slot->begin = slot->seen = slot->seen - held / 2;
    slot->own->Clear(slot->opening.tokens_max);
    slot->text = SuffixAutomaton::kRoot;
  }
}

void SuffixProposer::Follow(const SuffixAutomaton& texts, SuffixAutomaton::Match match,
                            int32_t ends, std::span<int32_t> drafts, Best* best) const {
  // A shorter end was seen more often, and what followed it may agree more.
  for (int i = 0; i < 2 && match.length >= kShortest; ++i) {
    const size_t most = std::min(drafts.size(), kPerMatched * static_cast<size_t>(match.length));
    if (static_cast<double>(most) <= best->expected) return;
    const auto guess = texts.Follow(match, ends, kLeastShare, std::span(best->scratch).first(most));
    if (guess.expected > best->expected) {
      best->expected = guess.expected;
      best->draft = {guess.count, GradeOf(match.length)};
      best->source = &texts;
      best->match = match;
      best->ends = ends;
      std::copy_n(best->scratch.begin(), guess.count, drafts.begin());
    }
    match = texts.Shorter(match.state);
  }
}

// Sequences take turns, and what one reads has left the caches when its turn comes again.
void SuffixProposer::Prefetch(const Slot& slot, std::span<const int32_t> tokens) const {
  const std::span<const int32_t> fresh =
      tokens.last(std::min(tokens.size() - static_cast<size_t>(slot.seen), size_t{kPrefetched}));
  slot.own->PrefetchState(slot.text);
  for (const int32_t token : fresh) slot.own->Prefetch(token);
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    if (part.life == 0 || part.key != slot.opening.key) continue;
    part.texts->PrefetchState(slot.cursors[i].match.state);
    for (const int32_t token : fresh) part.texts->Prefetch(token);
  }
}

Draft SuffixProposer::Propose(int32_t slot, std::span<const int32_t> tokens,
                              std::span<int32_t> drafts) {
  Slot& it = slots_[slot];
  it.source = nullptr;
  const auto size = static_cast<int32_t>(tokens.size());
  Prefetch(it, tokens);
  TakeIn(&it, tokens);
  if (it.seen < size || it.text == SuffixAutomaton::kRoot) return {};
  drafts = drafts.first(std::min(drafts.size(), size_t{limits::kDraftTokensMax}));
  Best best;
  Follow(*it.own, it.own->Before(it.text), 1, drafts, &best);
  Part* source = nullptr;
  for (size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    if (part.life == 0 || part.key != it.opening.key) continue;
    Cursor& cursor = it.cursors[i];
    if (cursor.life != part.life || cursor.seen < size - kLookBack) {
      cursor = {.life = part.life, .seen = std::max(0, size - kLookBack), .match = {}};
    }
    for (; cursor.seen < size; ++cursor.seen) {
      part.texts->Advance(tokens[cursor.seen], &cursor.match);
    }
    const double before = best.expected;
    Follow(*part.texts, cursor.match, 0, drafts, &best);
    if (best.expected > before) source = &part;
  }
  if (source != nullptr) source->used = ++clock_;
  it.source = best.source;
  it.match = best.match;
  it.ends = best.ends;
  it.count = best.draft.count;
  return best.draft;
}

int32_t SuffixProposer::ProposeAside(int32_t slot, std::span<Aside> asides) {
  const Slot& it = slots_[slot];
  if (it.source == nullptr) return 0;
  return it.source->FollowAside(it.match, it.ends, it.count, kAsideLength, kLeastAside, asides);
}

int32_t SuffixProposer::PartsOf(uint64_t key) const {
  return static_cast<int32_t>(std::count_if(parts_.begin(), parts_.end(), [&](const Part& part) {
    return part.life > 0 && part.key == key;
  }));
}

int32_t SuffixProposer::PartFor(uint64_t key, bool full) {
  Part* newest = nullptr;
  for (Part& part : parts_) {
    if (part.life == 0 || part.key != key) continue;
    if (newest == nullptr || part.made > newest->made) newest = &part;
  }
  if (newest == nullptr || full) {
    // Parts that hold nothing were used least of all.
    const bool own = PartsOf(key) >= memory_.parts_of_key;
    newest = nullptr;
    for (Part& part : parts_) {
      if (own && (part.life == 0 || part.key != key)) continue;
      if (newest == nullptr || part.used < newest->used) newest = &part;
    }
    newest->texts->Clear(SuffixAutomaton::TokensIn(memory_.part_bytes));
    newest->key = key;
    ++newest->life;
    newest->made = ++clock_;
  }
  newest->used = ++clock_;
  return static_cast<int32_t>(newest - parts_.data());
}

bool SuffixProposer::End(int32_t slot, std::span<const int32_t> tokens) {
  Slot& it = slots_[slot];
  const std::span<const int32_t> text = tokens.subspan(it.opening.quoted);
  const auto size = static_cast<int32_t>(text.size());
  const int32_t end = std::min(size, it.learned + kTokensOfEnd);
  while (it.learned < end) {
    const bool gone = it.part < 0 || parts_[it.part].life != it.part_life;
    SuffixAutomaton::State longer = SuffixAutomaton::kFull;
    if (!gone) longer = parts_[it.part].texts->Extend(it.part_text, text[it.learned]);
    if (longer == SuffixAutomaton::kFull) {
      it.part = PartFor(it.opening.key, !gone);
      it.part_life = parts_[it.part].life;
      it.part_text = SuffixAutomaton::kRoot;
      continue;
    }
    it.part_text = longer;
    ++it.learned;
  }
  return it.learned == size;
}

}  // namespace sluice::speculate
