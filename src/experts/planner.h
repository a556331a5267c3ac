// Which rank holds which experts of a layer, so that all ranks have about as much to do: the two
// policies of DeepSeek's expert-parallel load balancer (EPLB, github.com/deepseek-ai/EPLB). Global:
// the experts with the most tokens get copies, and all copies are spread over all ranks.
// Hierarchical, for routers that keep the tokens of a step to a few groups of experts: groups are
// spread over nodes first, then each node is planned by itself, so that tokens change nodes less.
// Tokens of an expert are shared evenly among its copies. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sluice/status.h"

namespace sluice::experts {

inline constexpr int kRanksMax = 512;

struct PlanOptions {
  int ranks = 1;
  int replicas = 0;  // copies beyond the first of each expert, of a layer
  int nodes = 1;     // of ranks / nodes ranks each; 1: the global policy
  int groups = 1;    // of experts, side by side, as the router has them; for several nodes
};

// kInvalidArgument names the option that does not fit `experts` experts or the other options.
Status CheckPlanOptions(const PlanOptions& options, int experts);

// By rank, the experts that it holds, ascending and all different. Every expert is held by a rank,
// and no rank holds more than CapacityOf.
using Placement = std::vector<std::vector<int32_t>>;

// Copies of experts that a rank has room for: the least that all fit in.
int CapacityOf(const PlanOptions& options, int experts);

// `loads`: tokens of each expert of one layer, none below zero; where all are zero, all count the
// same. REQUIRES: CheckPlanOptions is fine with it.
Placement Plan(std::span<const double> loads, const PlanOptions& options);

// Experts in their order, the same number on each rank, one more on the first where it has to be.
Placement InOrder(int experts, int ranks);

// The load of each rank, each expert's shared evenly among those that hold it.
std::vector<double> RankLoads(const Placement& placement, std::span<const double> loads);

}  // namespace sluice::experts
