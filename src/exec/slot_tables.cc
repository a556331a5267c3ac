#include "exec/slot_tables.h"

#include <algorithm>

#include "base/str_cat.h"

namespace sluice::exec {

namespace {

bool NamesKnown(const batch::BatchPlan& plan, const batch::PlanEntry& entry) {
  const auto tokens = std::span(plan.tokens).subspan(entry.token_begin, entry.query_tokens);
  // A guess stands behind what was drawn; a long chunk of a prompt has neither.
  return tokens.front() < 0 || (tokens.size() > 1 && tokens[1] < 0);
}

}  // namespace

// What is held of an entry's table when the plan has told its part.
SlotTables::Table SlotTables::After(const batch::BatchPlan& plan, size_t e, size_t g) const {
  const batch::PlanEntry& entry = plan.entries[e];
  const batch::GroupTable& table = plan.groups[g];
  Table held = tables_[entry.slot * groups_.size() + g];
  held.told = static_cast<int32_t>(table.Width(e));
  held.from = std::min(held.from, table.first[e]);
  for (int32_t i = table.begin[e + 1]; i-- > table.begin[e];) {
    if (table.ids[i] >= 0) continue;
    held.from = table.first[e] + i + 1 - table.begin[e];
    break;
  }
  return held;
}

// A token of the entry that the plan does not name is one that was drawn for its sequence, or a
// guess of what follows that one; and that stands where the plan takes it to.
bool SlotTables::CheckDrawn(const batch::BatchPlan& plan, size_t e, std::string* why) const {
  const batch::PlanEntry& entry = plan.entries[e];
  const Drawn& drawn = drawn_[entry.slot];
  if (drawn.step == 0 || drawn.sequence != entry.sequence) {
    *why = StrCat("entry ", e, " goes on from the token that slot ", entry.slot,
                  " drew last, but none was drawn there for sequence ", entry.sequence,
                  "; tell the tokens");
    return false;
  }
  if (plan.tokens[entry.token_begin] != batch::kLastDrawn) return true;
  const int32_t least = entry.first_position - entry.unsure;
  if (least <= drawn.least && drawn.most <= entry.first_position) return true;
  *why = StrCat("entry ", e, " goes on at position ", least, " to ", entry.first_position,
                ", but slot ", entry.slot, " drew last for position ", drawn.least, " to ",
                drawn.most);
  return false;
}

bool SlotTables::Check(const batch::BatchPlan& plan, std::string* why) const {
  for (size_t e = 0; e < plan.entries.size(); ++e) {
    const batch::PlanEntry& entry = plan.entries[e];
    if (NamesKnown(plan, entry) && !CheckDrawn(plan, e, why)) return false;
    const bool whole = entry.told_whole == plan.step;
    const uint64_t held_whole = told_whole_[entry.slot];
    if (!whole && (held_whole == 0 || entry.told_whole != held_whole)) {
      *why = StrCat("entry ", e, " goes on from block tables that step ", entry.told_whole,
                    " told, but slot ", entry.slot, " holds ",
                    held_whole == 0 ? "none" : StrCat("those of step ", held_whole),
                    "; tell them whole");
      return false;
    }
    for (size_t g = 0; g < groups_.size(); ++g) {
      const int32_t first = plan.groups[g].first[e];
      const int32_t told = whole ? 0 : tables_[entry.slot * groups_.size() + g].told;
      if (first > told) {
        *why = StrCat("entry ", e, " tells blocks of group ", g, " from number ", first,
                      " on, but slot ", entry.slot, " holds ", told, "; tell them whole");
        return false;
      }
      // Tokens are written and read through the table: a missing block is an error, never a skipped
      // write or a read of another sequence's.
      const int32_t from = After(plan, e, g).from;
      if (from == 0) continue;
      const int32_t tokens = groups_[g].kernel_block_tokens;
      const int32_t least = entry.first_position - entry.unsure;
      const int32_t needed = batch::FirstNeededPosition(groups_[g], least) / tokens;
      if (from > needed) {
        *why = StrCat("entry ", e, " has no block for position ", needed * tokens, " in group ", g);
        return false;
      }
    }
  }
  return true;
}

void SlotTables::Take(const batch::BatchPlan& plan) {
  for (size_t e = 0; e < plan.entries.size(); ++e) {
    const batch::PlanEntry& entry = plan.entries[e];
    told_whole_[entry.slot] = entry.told_whole;
    TakeDrawn(plan, e);
    for (size_t g = 0; g < groups_.size(); ++g) {
      Table held = After(plan, e, g);
      if (groups_[g].kind != batch::KvKind::kFull) {
        const int32_t behind =
            batch::FirstNeededBlock(groups_[g], entry.first_position - entry.unsure);
        held.from = std::max(held.from, behind * groups_[g].ratio());
      }
      At(entry.slot, g) = held;
    }
  }
}

void SlotTables::TakeDrawn(const batch::BatchPlan& plan, size_t e) {
  const batch::PlanEntry& entry = plan.entries[e];
  Drawn& drawn = drawn_[entry.slot];
  const uint64_t since = drawn.since;
  drawn = {};
  if (entry.tree >= 0) return;  // nothing of it is kept there
  const auto rows = std::span(plan.logits_rows).subspan(entry.logits_begin, entry.logits_count);
  const auto draws = [](const batch::LogitsRow& row) {
    return row.purpose != batch::RowPurpose::kScore;
  };
  const auto first = std::find_if(rows.begin(), rows.end(), draws);
  if (first == rows.end()) return;
  const int32_t begin = entry.first_position - entry.token_begin + 1;
  const bool goes_on = plan.tokens[entry.token_begin] == batch::kLastDrawn;
  drawn = {.step = plan.step,
           .since = goes_on ? since : plan.step,
           .sequence = entry.sequence,
           .least = begin + first->token - entry.unsure,
           .most = begin + rows.back().token};
}

void SlotTables::ForgetDrawn(const batch::BatchPlan& plan, std::span<const int32_t> rows) {
  for (const batch::PlanEntry& entry : plan.entries) {
    for (const int32_t row : rows) {
      if (row >= entry.logits_begin && row < entry.logits_begin + entry.logits_count)
        drawn_[entry.slot] = {};
    }
  }
}

// What steps behind it have drawn stands behind what it drew.
void SlotTables::Settle(const batch::BatchPlan& plan, const batch::StepResult& result) {
  for (size_t e = 0; e < plan.entries.size(); ++e) {
    const batch::PlanEntry& entry = plan.entries[e];
    if (entry.logits_count < 2) continue;  // no draft among them
    Drawn& drawn = drawn_[entry.slot];
    if (drawn.step == 0 || drawn.sequence != entry.sequence || drawn.since > plan.step) continue;
    const auto rows = std::span(plan.logits_rows).subspan(entry.logits_begin, entry.logits_count);
    const auto verified = static_cast<int32_t>(std::count_if(
        rows.begin(), rows.end(),
        [](const batch::LogitsRow& row) { return row.purpose == batch::RowPurpose::kVerify; }));
    if (verified == 0) continue;
    const int32_t kept = result.entries[e].token_count;
    drawn.least += kept - 1;
    drawn.most -= verified - kept;
  }
}

void SlotTables::ForgetAll() {
  told_whole_.assign(told_whole_.size(), 0);
  drawn_.assign(drawn_.size(), {});
}

void SlotTables::Forget(const batch::BatchPlan& plan) {
  for (const batch::PlanEntry& entry : plan.entries) {
    drawn_[entry.slot] = {};
    if (told_whole_[entry.slot] <= plan.step) told_whole_[entry.slot] = 0;
  }
}

}  // namespace sluice::exec
