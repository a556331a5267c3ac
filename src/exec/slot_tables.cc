#include "exec/slot_tables.h"

#include <algorithm>

#include "base/str_cat.h"

namespace sluice::exec {

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

bool SlotTables::Check(const batch::BatchPlan& plan, std::string* why) const {
  for (size_t e = 0; e < plan.entries.size(); ++e) {
    const batch::PlanEntry& entry = plan.entries[e];
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
      const int32_t needed = batch::FirstNeededPosition(groups_[g], entry.first_position) / tokens;
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
    for (size_t g = 0; g < groups_.size(); ++g) {
      Table held = After(plan, e, g);
      if (groups_[g].kind != batch::KvKind::kFull) {
        const int32_t behind = batch::FirstNeededBlock(groups_[g], entry.first_position);
        held.from = std::max(held.from, behind * groups_[g].ratio());
      }
      At(entry.slot, g) = held;
    }
  }
}

void SlotTables::Forget(const batch::BatchPlan& plan) {
  for (const batch::PlanEntry& entry : plan.entries) {
    if (told_whole_[entry.slot] <= plan.step) told_whole_[entry.slot] = 0;
  }
}

}  // namespace sluice::exec
