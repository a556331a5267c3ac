// SlotTables: what the device holds of block tables, slot by slot, as far as plans told it. A plan
// tells what changed alone, so each is held against this before it runs: one that goes on from
// something else than what lies on the device is refused, and nothing stale is read. Step thread
// only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "batch/kv_group.h"
#include "batch/plan.h"

namespace sluice::exec {

class SlotTables {
 public:
  SlotTables(std::span<const batch::KvGroup> groups, int64_t slots)
      : groups_(groups.begin(), groups.end()),
        told_whole_(slots, 0),
        tables_(slots * static_cast<int64_t>(groups.size())) {}

  // False when the plan does not go on from what is held, or lacks a block that an entry needs;
  // *why then says which. REQUIRES: the plan's indices are in range.
  bool Check(const batch::BatchPlan& plan, std::string* why) const;
  // The plan's changes will be on the device when steps behind it run. REQUIRES: Check.
  void Take(const batch::BatchPlan& plan);
  // The plan failed or was dropped: what is held of its slots counts no more, unless a later plan
  // told them whole.
  void Forget(const batch::BatchPlan& plan);
  void ForgetAll() { told_whole_.assign(told_whole_.size(), 0); }

 private:
  struct Table {
    int32_t told = 0;  // ids held
    int32_t from = 0;  // the first behind every one that is missing or that steps have left behind
  };
  Table& At(int32_t slot, size_t group) { return tables_[slot * groups_.size() + group]; }
  Table After(const batch::BatchPlan& plan, size_t entry, size_t group) const;

  const std::vector<batch::KvGroup> groups_;
  std::vector<uint64_t> told_whole_;  // by slot: PlanEntry::told_whole; 0: nothing is held
  std::vector<Table> tables_;         // [slots, groups]
};

}  // namespace sluice::exec
