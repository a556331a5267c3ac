// Simulator: drives a Scheduler over a FakeDevice from a seed, with random arrivals, lengths,
// priorities, cancels, stop strings, drafts, late commits and memory pressure, and checks after
// each step that everything still holds. Throws std::runtime_error at the first violation.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fake_device.h"
#include "schedule/scheduler.h"

namespace sluice::sim {

struct Scenario {
  std::string name;
  schedule::SchedulerOptions options;
  std::vector<batch::KvGroup> groups;
  int32_t max_prompt = 120;
  int32_t max_answer = 60;
  double arrivals_per_step = 0.12;
  double overlap = 0.5;  // share of phases in which Commit comes one step late
  bool drafts = false;
  bool trees = false;         // some of them are
  int32_t device_drafts = 0;  // of each step of some sequences, beside those of the host
  bool masks = false;         // some sequences are masked, and some of their masks are late
  int32_t clients = 1;        // of the sequences; with several the scheduler hears what steps take
};

inline void PrintTo(const Scenario& scenario, std::ostream* out) { *out << scenario.name; }

struct Totals {
  uint64_t steps = 0, empty_steps = 0, late_commits = 0;
  uint64_t added = 0, refused = 0, finished = 0, ended_early = 0, degenerate = 0;
  uint64_t tokens_checked = 0, scores_checked = 0;
  uint64_t forks = 0, slot_starts = 0;
  uint64_t unsure = 0;  // entries that stand where only the device knows
  uint64_t postponed = 0, longest_wait_steps = 0;
  uint64_t plan_hash = 0;  // of every plan, in order
  schedule::SchedulerStats scheduler;
};

class Simulator {
 public:
  Simulator(Scenario scenario, uint64_t seed);
  // Runs `steps` steps with arrivals, then lets everything finish and checks that nothing is left.
  Totals Run(uint64_t steps);

 private:
  struct Request {  // one sequence, as its user sees it
    schedule::SequenceSpec spec;
    std::vector<int32_t> expected;  // all tokens that it gives alone
    schedule::FinishReason expected_finish = schedule::FinishReason::kNone;
    std::vector<int32_t> got;
    int32_t scored = 0;
    int32_t may_stop_after = -1;  // a text worker ends it after so many tokens
    uint64_t added_step = 0;
    bool admitted = false;
  };
  // What a step in flight names.
  struct NamedBlocks {
    uint64_t step = 0;
    std::map<int32_t, uint64_t> slots;                                  // slot, sequence
    std::set<std::pair<int32_t, std::pair<int32_t, uint64_t>>> blocks;  // group, block, sequence
  };

  uint64_t Below(uint64_t below) { return random_() % below; }
  bool Chance(double p) { return static_cast<double>(random_() >> 11) * 0x1p-53 < p; }

  void Arrive();
  schedule::SequenceSpec MakeSpec();
  void AddRequest(std::vector<schedule::SequenceSpec> choices);
  void Expect(Request* request) const;
  void EndSomeEarly();
  std::vector<int32_t> MakeTree(const Request& request, std::vector<int32_t>* drafts);
  void AttachSomeDrafts();
  std::set<schedule::SequenceId> SomeLate();
  void Step();
  void CommitOldest();
  void Take(const schedule::SequenceOutcome& out, const batch::StepResult& result);
  void CheckFinished(const Request& request, const schedule::SequenceOutcome& out);
  void CheckPlan(const batch::BatchPlan& plan);
  void CheckWrites(const batch::BatchPlan& plan);
  void CheckNobodyWasPassed(const schedule::Sequence& joined) const;
  void CheckSharing();
  void CheckProgress(const batch::BatchPlan& plan);

  const Scenario scenario_;
  std::mt19937_64 random_;
  std::unique_ptr<schedule::Scheduler> scheduler_;
  FakeDevice device_;
  int64_t now_us_ = 0;
  uint64_t next_id_ = 1;
  std::map<schedule::SequenceId, Request> requests_;  // alive
  std::deque<batch::StepResult> uncommitted_;
  std::deque<NamedBlocks> named_;            // of uncommitted steps
  std::vector<std::vector<int32_t>> texts_;  // shared beginnings of prompts
  bool late_ = false;
  batch::BatchPlan plan_;
  schedule::CommitOutcome outcome_;
  Totals totals_;
};

}  // namespace sluice::sim
