// FakeDevice: executes plans on a KV memory that holds, instead of keys and values, what each cell
// was written with: token, position and a chained hash of everything before. Every read is checked,
// and the next token is a hash of the true history, so a plan that names a wrong block, a stale one
// or a wrong position fails or changes the answer.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "batch/draft_tree.h"
#include "batch/kv_group.h"
#include "batch/plan.h"
#include "batch/result.h"

namespace sluice::sim {

inline constexpr int32_t kVocabulary = 200;
inline constexpr int32_t kEndId = 0;

uint64_t Mix(uint64_t a, uint64_t b);

// What a row of the model gives after the history with hash `chain`.
struct Draw {
  int32_t token = 0;
  bool degenerate = false;
  double logprob = 0.0;
};
Draw DrawAfter(uint64_t chain, const batch::SamplingParams& sampling);
float ScoreOf(uint64_t chain, int32_t target);

class FakeDevice {
 public:
  FakeDevice(std::vector<batch::KvGroup> groups, int32_t slots);

  // Throws std::runtime_error on a plan that no device could compute rightly. Those of `late` draw
  // nothing.
  batch::StepResult Run(const batch::BatchPlan& plan, const std::set<batch::SequenceId>& late);
  uint64_t tokens_computed() const { return tokens_computed_; }

 private:
  struct Cell {
    uint64_t chain = 0;
    int32_t token = -1;
    int32_t position = -1;
  };
  struct Slot {
    batch::SamplingParams sampling;
    std::vector<int32_t> history;
    bool drawn = false;                        // its newest step drew the end of it
    uint64_t told_whole = 0;                   // PlanEntry's
    std::vector<std::vector<int32_t>> tables;  // by group, as plans told them
  };
  struct EntryRun {
    const batch::BatchPlan& plan;
    const batch::PlanEntry& entry;
    int32_t first = 0;                      // position of its first token
    std::vector<int32_t> tokens;            // resolved
    std::vector<uint64_t> chains;           // after each of them
    int32_t root = 0;                       // of the tokens: the one that a tree's drafts follow
    std::span<const int32_t> parents = {};  // of these drafts; empty: there is no tree
    batch::DraftDepths depths = {};
  };

  Cell& At(const EntryRun& run, size_t group, int32_t position);
  int32_t CellOf(size_t group, int32_t position) const;
  int32_t FirstOf(const batch::BatchPlan& plan, const batch::PlanEntry& entry) const;
  int32_t Resolve(const EntryRun& run, int32_t index, uint64_t chain) const;
  void Learn(const batch::BatchPlan& plan, size_t entry);
  void Copy(const batch::BlockCopy& copy);
  void Attend(const EntryRun& run);
  void WriteEntry(EntryRun* run);
  batch::ResultEntry SampleTree(const EntryRun& run, batch::StepResult* result);
  void Sample(const EntryRun& run, bool late, batch::StepResult* result);

  const std::vector<batch::KvGroup> groups_;
  std::vector<std::vector<Cell>> cells_;  // by group: [kernel_blocks, kernel_block_tokens]
  std::vector<Slot> slots_;
  uint64_t last_step_ = 0;
  uint64_t tokens_computed_ = 0;
};

}  // namespace sluice::sim
