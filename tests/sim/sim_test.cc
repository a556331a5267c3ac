// The scheduler simulator: 17,200 steps of each scenario. SLUICE_SIM_STEPS and
// SLUICE_SIM_SEED in the environment run more of it, or other draws.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "simulator.h"

namespace sluice::sim {
namespace {

using batch::KvGroup;
using batch::KvKind;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::strtoull(value, nullptr, 10) : otherwise;
}

schedule::SchedulerOptions Options() {
  schedule::SchedulerOptions options;
  options.max_num_seqs = 8;
  options.max_batch_tokens = 64;
  options.max_extra_rows = 24;
  options.max_model_len = 200;
  options.queue_limit = 40;
  return options;
}

// Drafts that are trees, of as many as a step takes.
template <class Add>
void AddTrees(const Add& add, const KvGroup& full, const KvGroup& window) {
  Scenario& trees = add("trees", {{KvKind::kFull, 8, 8, 0, 60}, window});
  trees.drafts = trees.trees = trees.options.draft_trees = true;
  trees.options.max_draft_tokens = 8;
  trees.overlap = 0.8;
  // Steps have hardly room for what is computed again.
  Scenario& tight_trees = add("trees_tight_memory", {{KvKind::kFull, 8, 8, 0, 26}});
  tight_trees.drafts = tight_trees.trees = tight_trees.options.draft_trees = true;
  tight_trees.options.max_draft_tokens = 8;
  tight_trees.options.max_batch_tokens = tight_trees.options.max_num_seqs;
  tight_trees.options.policy = "priority";
  // Some of their sequences have masks or guesses of the runner, so that chains are taken instead.
  Scenario& mixed_trees = add("trees_of_some", {full, window});
  mixed_trees.device_drafts = mixed_trees.options.max_draft_tokens = 4;
  mixed_trees.drafts = mixed_trees.masks = true;
  mixed_trees.trees = mixed_trees.options.draft_trees = true;
  mixed_trees.overlap = 0.8;
  KvGroup states = {KvKind::kState, 24, 24, 0, 30};
  states.states = 5;
  Scenario& no_trees = add("no_trees_of_states", {full, states});
  no_trees.drafts = no_trees.trees = no_trees.options.draft_trees = true;
  no_trees.options.max_draft_tokens = 4;
}

// Clients that share steps by what these take.
template <class Add>
void AddClients(const Add& add, const KvGroup& full, const KvGroup& window) {
  Scenario& clients = add("clients", {full, window});
  clients.clients = 4;
  clients.options.policy = "fair";
  Scenario& drafting = add("clients_with_drafts", {{KvKind::kFull, 8, 8, 0, 26}});
  drafting.clients = 3;
  drafting.options.policy = "fair";
  drafting.drafts = drafting.masks = true;
  drafting.options.max_draft_tokens = 8;
  drafting.overlap = 0.8;
}

std::vector<Scenario> Scenarios() {
  const KvGroup full{KvKind::kFull, 8, 4, 0, 90};
  const KvGroup window{KvKind::kWindow, 8, 8, 20, 50};
  std::vector<Scenario> all;
  const auto add = [&](std::string name, std::vector<KvGroup> groups) -> Scenario& {
    Scenario& scenario = all.emplace_back();
    scenario.name = std::move(name);
    scenario.options = Options();
    scenario.groups = std::move(groups);
    return scenario;
  };
  add("full", {full});
  Scenario& tight = add("tight_memory", {{KvKind::kFull, 8, 8, 0, 26}});
  tight.options.policy = "priority";
  Scenario& hybrid = add("full_and_window", {full, window});
  hybrid.options.policy = "priority";
  Scenario& windows = add("window_only", {{KvKind::kWindow, 4, 2, 30, 120}});
  windows.options.max_batch_tokens = 17;
  Scenario& drafts = add("drafts", {{KvKind::kFull, 8, 8, 0, 60}, window});
  drafts.drafts = true;
  drafts.options.max_draft_tokens = 4;
  Scenario& tight_drafts = add("drafts_tight_memory", {{KvKind::kFull, 8, 8, 0, 26}});
  tight_drafts.drafts = true;
  tight_drafts.options.max_draft_tokens = 8;
  tight_drafts.options.policy = "priority";
  tight_drafts.overlap = 0.8;
  // Steps are launched before anybody knows how far the drafts of the one before were right.
  Scenario& device_drafts = add("device_drafts", {full, window});
  device_drafts.device_drafts = device_drafts.options.max_draft_tokens = 4;
  device_drafts.overlap = 0.9;
  Scenario& mixed =
      add("drafts_of_both", {{KvKind::kFull, 8, 8, 0, 26}, {KvKind::kWindow, 8, 4, 9, 30}});
  mixed.device_drafts = mixed.options.max_draft_tokens = 8;
  mixed.drafts = mixed.masks = true;
  mixed.options.policy = "priority";
  mixed.overlap = 0.8;
  Scenario& masks = add("masks", {full, window});
  masks.masks = true;
  Scenario& masked_drafts = add("masked_drafts", {{KvKind::kFull, 8, 8, 0, 40}, window});
  masked_drafts.masks = masked_drafts.drafts = true;
  masked_drafts.options.max_draft_tokens = 4;
  masked_drafts.options.policy = "priority";
  add("masked_states", {full, {KvKind::kState, 24, 24, 0, 30}}).masks = true;
  add("state", {full, {KvKind::kState, 24, 24, 0, 30}});
  add("state_first", {{KvKind::kState, 32, 32, 0, 18}, full, window}).options.policy = "priority";
  add("state_only", {{KvKind::kState, 16, 16, 0, 20}});
  // Drafts that states are taken back by, right up to the borders between blocks.
  batch::KvGroup states = {KvKind::kState, 24, 24, 0, 30};
  states.states = 5;
  Scenario& drafted_states = add("drafted_states", {full, states});
  drafted_states.drafts = drafted_states.masks = true;
  drafted_states.options.max_draft_tokens = 4;
  drafted_states.overlap = 0.8;
  AddTrees(add, full, window);
  AddClients(add, full, window);
  return all;
}

class SchedulerSimulation : public testing::TestWithParam<Scenario> {};

TEST_P(SchedulerSimulation, HoldsItsInvariants) {
  const uint64_t seed = FromEnvironment("SLUICE_SIM_SEED", 1);
  const uint64_t steps = FromEnvironment("SLUICE_SIM_STEPS", 17'200);
  Totals t;
  ASSERT_NO_THROW(t = Simulator(GetParam(), seed).Run(steps));
  std::cout << GetParam().name << ": " << t.steps << " steps (" << t.empty_steps << " empty, "
            << t.late_commits << " late commits), " << t.added << " sequences, " << t.refused
            << " refused, " << t.finished << " finished, " << t.ended_early << " ended early, "
            << t.degenerate << " degenerate; " << t.tokens_checked << " tokens and "
            << t.scores_checked << " scores equal; " << t.scheduler.preemptions
            << " preemptions, prefix " << t.scheduler.prefix_hits << "/"
            << t.scheduler.prefix_queries << ", " << t.forks << " copies, drafts "
            << t.scheduler.accepted << "/" << t.scheduler.drafted << ", " << t.postponed
            << " late masks, longest wait " << t.longest_wait_steps << " steps\n";
  EXPECT_EQ(t.added, t.finished + t.ended_early);
  EXPECT_GT(t.finished, steps / 100);
  EXPECT_GT(t.late_commits, steps / 10);
  EXPECT_GT(t.degenerate, 0u);
  EXPECT_GT(t.scores_checked, 0u);
  EXPECT_GT(t.scheduler.prefix_hits, 0u);
  EXPECT_EQ(t.postponed > 100, GetParam().masks);
  const bool trees = GetParam().trees && GetParam().groups.back().kind != KvKind::kState;
  EXPECT_EQ(t.scheduler.aside > 100, trees) << t.scheduler.aside;
  EXPECT_EQ(t.unsure > 100, GetParam().device_drafts > 0);
  // Starvation: with at most 40 queued and 8 running of at most 200 tokens, nobody waits longer.
  EXPECT_LT(t.longest_wait_steps, 48u * 200u);
}

TEST_P(SchedulerSimulation, ReplaysFromItsSeed) {
  const auto hash = [&](uint64_t seed) { return Simulator(GetParam(), seed).Run(500).plan_hash; };
  EXPECT_EQ(hash(7), hash(7));
  EXPECT_NE(hash(7), hash(8));
}

INSTANTIATE_TEST_SUITE_P(All, SchedulerSimulation, testing::ValuesIn(Scenarios()),
                         [](const auto& scenario) { return scenario.param.name; });

}  // namespace
}  // namespace sluice::sim
