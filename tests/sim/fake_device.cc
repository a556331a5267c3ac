#include "fake_device.h"

#include <algorithm>
#include <stdexcept>

#include "base/str_cat.h"

namespace sluice::sim {
namespace {

template <class... Parts>
void Require(bool condition, const Parts&... parts) {
  if (!condition) throw std::runtime_error(StrCat(parts...));
}

}  // namespace

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t h = (a ^ (b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdull;
  h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53ull;
  return h ^ (h >> 29);
}

Draw DrawAfter(uint64_t chain, const batch::SamplingParams& sampling) {
  const uint64_t h = Mix(Mix(chain, sampling.seed), static_cast<uint64_t>(sampling.choice));
  return {.token = static_cast<int32_t>(h % kVocabulary),
          .degenerate = (h >> 32) % 4001 == 7,
          .logprob = -static_cast<double>(h >> 50)};
}

float ScoreOf(uint64_t chain, int32_t target) {
  return -static_cast<float>(Mix(chain, static_cast<uint64_t>(target)) >> 48);
}

FakeDevice::FakeDevice(std::vector<batch::KvGroup> groups, int32_t slots)
    : groups_(std::move(groups)), slots_(slots) {
  for (const batch::KvGroup& group : groups_) {
    cells_.emplace_back(static_cast<size_t>(group.num_blocks) * group.block_tokens);
  }
}

FakeDevice::Cell& FakeDevice::At(const EntryRun& run, size_t g, int32_t position) {
  const std::vector<int32_t>& table = slots_.at(run.entry.slot).tables[g];
  const int32_t size = groups_[g].kernel_block_tokens;
  const int32_t i = position / size;
  Require(i < static_cast<int32_t>(table.size()), "sequence ", run.entry.sequence, " group ", g,
          ": position ", position, " is outside its table");
  const int32_t block = table[i];
  Require(block >= 0, "sequence ", run.entry.sequence, " group ", g, ": position ", position,
          " was let go");
  return cells_[g].at(static_cast<size_t>(block) * size + CellOf(g, position));
}

// Within its block, where states have as many cells as are kept.
int32_t FakeDevice::CellOf(size_t group, int32_t position) const {
  const batch::KvGroup& spec = groups_[group];
  return position % (spec.kind == batch::KvKind::kState ? spec.states : spec.kernel_block_tokens);
}

// What was drawn last stands at the end of the slot's history.
int32_t FakeDevice::FirstOf(const batch::BatchPlan& plan, const batch::PlanEntry& entry) const {
  if (plan.tokens[entry.token_begin] != batch::kLastDrawn) {
    Require(entry.unsure == 0, "sequence ", entry.sequence, " is unsure of a token it tells");
    return entry.first_position;
  }
  const int32_t first = static_cast<int32_t>(slots_.at(entry.slot).history.size()) - 1;
  Require(first <= entry.first_position && first >= entry.first_position - entry.unsure,
          "sequence ", entry.sequence, ": position ", first, " is not within ", entry.unsure,
          " of ", entry.first_position);
  return first;
}

// Behind `chain`. Guesses are right four times of five.
int32_t FakeDevice::Resolve(const EntryRun& run, int32_t index, uint64_t chain) const {
  const batch::TokenRef ref = run.plan.tokens[run.entry.token_begin + index];
  const Slot& slot = slots_.at(run.entry.slot);
  if (ref >= 0) return ref;
  Require(slot.drawn, "sequence ", run.entry.sequence, ": nothing was drawn in its slot");
  if (ref == batch::kLastDrawn) return slot.history.back();
  Require(ref == batch::KnownToken(index), "token ", index, " is ", ref);
  const int32_t right = DrawAfter(chain, slot.sampling).token;
  return Mix(chain, 77) % 5 == 0 ? right ^ 1 : right;
}

void FakeDevice::Learn(const batch::BatchPlan& plan, size_t e) {
  const batch::PlanEntry& entry = plan.entries[e];
  Slot& slot = slots_.at(entry.slot);
  const bool whole = entry.told_whole == plan.step;
  Require(whole || entry.told_whole == slot.told_whole, "sequence ", entry.sequence,
          " goes on from tables of step ", entry.told_whole, ", the slot holds those of step ",
          slot.told_whole);
  slot.told_whole = entry.told_whole;
  slot.tables.resize(groups_.size());
  for (size_t g = 0; g < groups_.size(); ++g) {
    const batch::GroupTable& told = plan.groups[g];
    std::vector<int32_t>& table = slot.tables[g];
    if (whole) table.clear();
    Require(told.first[e] <= static_cast<int32_t>(table.size()), "sequence ", entry.sequence,
            ": ids of group ", g, " from ", told.first[e], " on, the slot holds ", table.size());
    table.resize(told.first[e]);
    table.insert(table.end(), told.ids.begin() + told.begin[e],
                 told.ids.begin() + told.begin[e + 1]);
  }
}

void FakeDevice::Copy(const batch::BlockCopy& copy) {
  const int32_t size = groups_[copy.group].block_tokens;
  std::vector<Cell>& cells = cells_[copy.group];
  std::copy_n(cells.begin() + static_cast<int64_t>(copy.source) * size, size,
              cells.begin() + static_cast<int64_t>(copy.destination) * size);
}

batch::StepResult FakeDevice::Run(const batch::BatchPlan& plan,
                                  const std::set<batch::SequenceId>& late) {
  Require(plan.step == last_step_ + 1, "step ", plan.step, " follows ", last_step_);
  last_step_ = plan.step;
  for (const batch::BlockCopy& copy : plan.copies) Copy(copy);
  for (const batch::SlotStart& start : plan.starts) {
    slots_.at(start.slot) = {start.sampling, start.history, false, 0, {}};
  }
  batch::StepResult result;
  result.step = plan.step;
  std::vector<EntryRun> runs;
  for (size_t e = 0; e < plan.entries.size(); ++e) {
    Learn(plan, e);
    const batch::PlanEntry& entry = plan.entries[e];
    EntryRun& run = runs.emplace_back(EntryRun{plan, entry, FirstOf(plan, entry), {}, {}});
    if (entry.tree >= 0) {
      run.parents = batch::ParentsOf(plan, entry);
      Require(batch::IsTree(run.parents), "sequence ", entry.sequence, " has no tree of drafts");
      run.root = entry.query_tokens - entry.logits_count;
      run.depths = batch::Depths(run.parents);
    }
    WriteEntry(&run);
  }
  // All writes come first: an entry that overwrites what another reads is found.
  for (const EntryRun& run : runs) {
    Attend(run);
    Sample(run, late.contains(run.entry.sequence), &result);
  }
  return result;
}

void FakeDevice::WriteEntry(EntryRun* run) {
  const batch::PlanEntry& entry = run->entry;
  const int32_t first = run->first;
  const int32_t end = first + entry.query_tokens;
  Require(batch::StepEnd(groups_, first, end) == end, "sequence ", entry.sequence, ": a step from ",
          first, " to ", end, " leaves a block of states");
  uint64_t chain = 1;
  for (size_t g = 0; g < groups_.size() && first > 0; ++g) {
    if (groups_[g].kind == batch::KvKind::kWindow && groups_[g].window < 2) continue;
    const Cell& before = At(*run, g, first - 1);
    Require(before.position == first - 1, "sequence ", entry.sequence, " group ", g, ": position ",
            first - 1, " holds ", before.position);
    Require(g == 0 || before.chain == chain, "sequence ", entry.sequence, ": group ", g,
            " holds another history");
    chain = before.chain;
  }
  for (int32_t i = 0; i < entry.query_tokens; ++i) {
    const int32_t token = Resolve(*run, i, chain);
    const bool draft = !run->parents.empty() && i > run->root;
    if (draft) chain = run->chains[run->root + run->parents[i - run->root - 1]];
    chain = Mix(chain, static_cast<uint64_t>(token));
    const int32_t position = first + (draft ? run->root + run->depths[i - run->root] : i);
    for (size_t g = 0; g < groups_.size(); ++g) {
      const bool state = groups_[g].kind == batch::KvKind::kState;
      if (state && entry.query_tokens > groups_[g].states && first + i + 1 < end) continue;
      At(*run, g, first + i) = {chain, token, position};
    }
    run->tokens.push_back(token);
    run->chains.push_back(chain);
    ++tokens_computed_;
  }
}

// Reads what the first and the last query token of the entry read, of a tree's first branch.
void FakeDevice::Attend(const EntryRun& run) {
  int32_t last = run.first + run.entry.query_tokens - 1;
  if (!run.parents.empty()) last = run.first + run.root + batch::FirstBranch(run.parents);
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].kind == batch::KvKind::kState) continue;
    const int32_t from = groups_[g].kind == batch::KvKind::kWindow
                             ? std::max(0, run.first - groups_[g].window + 1)
                             : 0;
    uint64_t before = 1;
    for (int32_t p = from; p <= last; ++p) {
      const Cell& cell = At(run, g, p);
      Require(
          cell.position == p &&
              (p > 0 && p == from ? true
                                  : cell.chain == Mix(before, static_cast<uint64_t>(cell.token))),
          "sequence ", run.entry.sequence, " group ", g, ": position ", p, " holds ", cell.position,
          " of another history");
      before = cell.chain;
    }
  }
}

batch::ResultEntry FakeDevice::SampleTree(const EntryRun& run, batch::StepResult* result) {
  Slot& slot = slots_.at(run.entry.slot);
  batch::ResultEntry out;
  const int32_t branch = batch::FirstBranch(run.parents);
  for (int32_t at = 0; at >= 0;) {
    const int32_t i = run.root + at;
    Require(run.plan.logits_rows[run.entry.logits_begin + at].token == run.entry.token_begin + i,
            "sequence ", run.entry.sequence, ": row ", at, " of its tree is another token's");
    Require(
        static_cast<int32_t>(slot.history.size()) == run.first + run.root + run.depths[at] + 1 &&
            slot.history.back() == run.tokens[i],
        "sequence ", run.entry.sequence, ": the slot's history differs at draft ", at);
    const Draw draw = DrawAfter(run.chains.at(i), slot.sampling);
    slot.history.push_back(draw.token);
    result->tokens.push_back({.id = draw.token, .logprob = static_cast<float>(draw.logprob)});
    ++out.token_count;
    out.aside += at > branch ? 1 : 0;
    if (draw.degenerate) out.status = batch::RowStatus::kDegenerate;
    const auto next = std::find_if(run.parents.begin(), run.parents.end(), [&](const int32_t& p) {
      return p == at && run.tokens[run.root + 1 + (&p - run.parents.data())] == draw.token;
    });
    at = draw.degenerate || next == run.parents.end()
             ? -1
             : static_cast<int32_t>(next - run.parents.begin()) + 1;
  }
  return out;
}

void FakeDevice::Sample(const EntryRun& run, bool late, batch::StepResult* result) {
  const batch::PlanEntry& entry = run.entry;
  Slot& slot = slots_.at(entry.slot);
  batch::ResultEntry out;
  out.sequence = entry.sequence;
  out.token_begin = static_cast<int32_t>(result->tokens.size());
  out.score_begin = static_cast<int32_t>(result->scores.size());
  if (!run.parents.empty()) {
    const batch::ResultEntry tree = SampleTree(run, result);
    out.status = tree.status;
    out.token_count = tree.token_count;
    out.aside = tree.aside;
    // What it drew last stands nowhere but in the result.
    slot.drawn = false;
    result->entries.push_back(out);
    return;
  }
  for (int32_t r = entry.logits_begin; r < entry.logits_begin + entry.logits_count; ++r) {
    const batch::LogitsRow& row = run.plan.logits_rows[r];
    const int32_t i = row.token - entry.token_begin;
    const uint64_t chain = run.chains.at(i);
    if (row.purpose == batch::RowPurpose::kScore) {
      result->scores.push_back({.id = row.target, .logprob = ScoreOf(chain, row.target)});
      ++out.score_count;
      continue;
    }
    if (late) break;
    Require(static_cast<int32_t>(slot.history.size()) == run.first + i + 1 &&
                slot.history.back() == run.tokens[i],
            "sequence ", entry.sequence, ": the slot's history differs at position ",
            run.first + i);
    const Draw draw = DrawAfter(chain, slot.sampling);
    slot.history.push_back(draw.token);
    result->tokens.push_back({.id = draw.token, .logprob = static_cast<float>(draw.logprob)});
    ++out.token_count;
    if (draw.degenerate) out.status = batch::RowStatus::kDegenerate;
    const bool last = r + 1 == entry.logits_begin + entry.logits_count;
    if (draw.degenerate || last || draw.token != run.tokens[i + 1])
      break;  // a rejected draft ends the entry
  }
  slot.drawn = out.token_count > 0;
  result->entries.push_back(out);
}

}  // namespace sluice::sim
