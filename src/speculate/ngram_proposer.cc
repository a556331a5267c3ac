#include "speculate/ngram_proposer.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "speculate/draft_length.h"

namespace sluice::speculate {

uint32_t NgramProposer::EntriesFor(int32_t tokens) {
  const auto entries = static_cast<uint32_t>(tokens) * uint32_t{kRuns} * 4 / 3 + 1;
  return std::max(kCapacityMin, std::bit_ceil(entries));
}

NgramProposer::NgramProposer(const ProposerLimits& limits, size_t bytes_max, const HashSeed& seed)
    : seed_(seed) {
  static_assert(kRuns <= kDraftGrades);
  CHECK(limits.slots > 0 && limits.tokens_max > 0, "slots=", limits.slots);
  const size_t share = bytes_max / sizeof(Entry) / static_cast<size_t>(limits.slots);
  const size_t fits = std::bit_floor(std::max<size_t>(share, kCapacityMin));
  capacity_ = static_cast<uint32_t>(std::min<size_t>(fits, EntriesFor(limits.tokens_max)));
  // Not written to, so that the system gives memory only where sequences come to use it.
  memory_ = std::make_unique_for_overwrite<Entry[]>(size_t{capacity_} * limits.slots);
  tables_.resize(limits.slots);
}

void NgramProposer::Start(int32_t slot, const Opening& opening) {
  CHECK(slot >= 0 && slot < static_cast<int32_t>(tables_.size()), "slot ", slot);
  tables_[slot].size = std::min(capacity_, EntriesFor(opening.tokens_max));
  Clear(slot, 0);
}

void NgramProposer::Clear(int32_t slot, int32_t begin) {
  Table& table = tables_[slot];
  std::fill_n(EntriesOf(slot), table.size, Entry{0});
  table = {.size = table.size, .begin = begin, .indexed = begin, .round = table.round};
}

uint64_t NgramProposer::Extend(uint64_t hash, int32_t token, const HashSeed& seed) {
  return FoldedProduct(hash ^ seed.state, static_cast<uint32_t>(token) ^ seed.text);
}

// By length less 1: the hashes of the runs that end at token `at`, as far as the table knows them.
NgramProposer::Hashes NgramProposer::HashRuns(const Table& table, std::span<const int32_t> tokens,
                                              int32_t at) const {
  Hashes hashes;
  uint64_t hash = 0;
  hashes.count = std::min(kLongest, at - table.begin + 1);
  for (int32_t i = 0; i < hashes.count; ++i) {
    hash = Extend(hash, tokens[at - i], seed_);
    hashes.of[i] = hash;
  }
  return hashes;
}

// The runs of a token lie anywhere in a table that is larger than the nearest caches.
void NgramProposer::Prefetch(int32_t slot, std::span<const int32_t> tokens, int32_t at) {
  const Hashes hashes = HashRuns(tables_[slot], tokens, at);
  for (int32_t i = kShortest - 1; i < hashes.count; ++i) {
    __builtin_prefetch(&EntriesOf(slot)[hashes.of[i] & (tables_[slot].size - 1)]);
  }
}

void NgramProposer::Index(int32_t slot, std::span<const int32_t> tokens, int32_t at) {
  Table& table = tables_[slot];
  Entry* const entries = EntriesOf(slot);
  table.match = -1;
  const Hashes hashes = HashRuns(table, tokens, at);
  for (int32_t length = kShortest; length <= hashes.count; ++length) {
    const auto kind = static_cast<Entry>(length - kShortest);
    const int32_t* const run = tokens.data() + at - length + 1;
    uint64_t place = hashes.of[length - 1];
    // Steps that grow keep runs apart that begin at neighbouring places.
    for (int32_t probe = 0; probe < kProbesMax; place += ++probe) {
      Entry& entry = entries[place & (table.size - 1)];
      const int32_t end = static_cast<int32_t>(entry >> 2) - 1;
      const bool is_free = entry == 0;
      if (!is_free && ((entry & 3) != kind ||
                       !std::equal(run, run + length, tokens.data() + end - length + 1))) {
        continue;
      }
      if (is_free) ++table.taken;
      if (!is_free) {  // the longest comes last
        table.match = end;
        table.match_grade = length - kShortest;
      }
      entry = static_cast<Entry>(at + 1) << 2 | kind;
      break;
    }
  }
}

Draft NgramProposer::Propose(int32_t slot, std::span<const int32_t> tokens,
                             std::span<int32_t> drafts) {
  Table& table = tables_[slot];
  const auto size = static_cast<int32_t>(tokens.size());
  const int32_t room = RoomOf(table.size);
  if (table.round == round_) {
    ++round_;
    tokens_left_ = kTokensOfRound;
  }
  table.round = round_;
  const int32_t most = std::min(tokens_left_ / 2, room / 2);
  if (table.taken + kRuns * std::min(size - table.indexed, most) > table.size / 4 * 3) {
    Clear(slot, std::max(0, size - room / 2));
  }
  const int32_t end = std::min(size, table.indexed + most);
  tokens_left_ -= end - table.indexed;
  for (int32_t at = table.indexed; at < std::min(end, table.indexed + kAhead); ++at) {
    Prefetch(slot, tokens, at);
  }
  for (; table.indexed < end; ++table.indexed) {
    if (table.indexed + kAhead < end) Prefetch(slot, tokens, table.indexed + kAhead);
    Index(slot, tokens, table.indexed);
  }
  if (end < size || table.match < 0) return {};
  // Behind the last token the drafts go on as if they had been drawn: what repeats goes round.
  const int32_t period = size - 1 - table.match;
  const auto count = static_cast<int32_t>(drafts.size());
  for (int32_t i = 0; i < count; ++i) {
    drafts[i] = i < period ? tokens[table.match + 1 + i] : drafts[i - period];
  }
  return {count, table.match_grade};
}

}  // namespace sluice::speculate
