// SlotTables: what the device holds slot by slot: block tables, as far as plans told them, and what
// was drawn last. A plan tells what changed alone, so each is held against this before it runs: one
// that goes on from something else than what lies on the device is refused, and nothing stale is
// read. Step thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "batch/kv_group.h"
#include "batch/plan.h"
#include "batch/result.h"

namespace sluice::exec {

class SlotTables {
 public:
  SlotTables(std::span<const batch::KvGroup> groups, int64_t slots)
      : groups_(groups.begin(), groups.end()),
        told_whole_(slots, 0),
        drawn_(slots),
        tables_(slots * static_cast<int64_t>(groups.size())) {}

  // False when the plan does not go on from what is held, or lacks a block that an entry needs;
  // *why then says which. REQUIRES: the plan's indices are in range.
  bool Check(const batch::BatchPlan& plan, std::string* why) const;
  // The plan's changes will be on the device when steps behind it run. REQUIRES: Check.
  void Take(const batch::BatchPlan& plan);
  // The plan failed or was dropped: what is held of its slots counts no more, unless a later plan
  // told them whole.
  void Forget(const batch::BatchPlan& plan);
  void ForgetAll();
  // These rows of the plan drew nothing after all.
  void ForgetDrawn(const batch::BatchPlan& plan, std::span<const int32_t> rows);
  // How far the drafts of the plan were right is known now.
  void Settle(const batch::BatchPlan& plan, const batch::StepResult& result);

 private:
  struct Table {
    int32_t told = 0;  // ids held
    int32_t from = 0;  // the first behind every one that is missing or that steps have left behind
  };
  // Where the token stands that was drawn last for a slot's sequence.
  struct Drawn {
    uint64_t step = 0;   // the newest one that draws; 0: nothing that a plan may go on from
    uint64_t since = 0;  // the first step on whose result that position depends
    batch::SequenceId sequence = 0;
    int32_t least = 0, most = 0;
  };
  bool CheckDrawn(const batch::BatchPlan& plan, size_t entry, std::string* why) const;
  void TakeDrawn(const batch::BatchPlan& plan, size_t entry);
  Table& At(int32_t slot, size_t group) { return tables_[slot * groups_.size() + group]; }
  Table After(const batch::BatchPlan& plan, size_t entry, size_t group) const;

  const std::vector<batch::KvGroup> groups_;
  std::vector<uint64_t> told_whole_;  // by slot: PlanEntry::told_whole; 0: nothing is held
  std::vector<Drawn> drawn_;          // by slot
  std::vector<Table> tables_;         // [slots, groups]
};

}  // namespace sluice::exec
