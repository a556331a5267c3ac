// Balancer: keeps the experts of a model spread over its ranks as they are loaded: now and then it
// plans each layer anew (experts/planner.h), and brings experts to where the plan has them
// (experts/migration.h), one step of a migration after the other. Nothing that it does changes an
// answer. Step thread only; no device and no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experts/expert_map.h"
#include "experts/loads.h"
#include "experts/migration.h"

namespace sluice::experts {

// When ranks are balanced anew without being told to; neither: never.
struct BalanceInterval {
  int64_t steps = 0;
  int64_t us = 0;
};

// "3000" (steps), "60s" or "none". kInvalidArgument with one sentence for anything else.
Result<BalanceInterval> ParseBalanceInterval(std::string_view text);

// Sums since the start.
struct BalanceTotals {
  uint64_t plans = 0;     // of layers
  uint64_t declined = 0;  // of these, those that would have changed too little
  uint64_t layers = 0;    // brought to what was planned or wanted
  uint64_t copies = 0;    // of an expert from slot to slot
  uint64_t bytes = 0;     // of these
};

class Balancer {
 public:
  struct Options {
    MapShape shape;
    std::vector<int> layers;  // their numbers in the model, ascending
    int groups = 1;           // of experts, as the router has them
    BalanceInterval interval;
    std::string interval_text;  // as it was given, for reports
  };
  explicit Balancer(Options options);

  const ExpertMap& map() const { return map_; }
  const Options& options() const { return options_; }
  const BalanceTotals& totals() const { return totals_; }
  // Of the last plan of a layer, the load of the busiest rank over the mean before and after it;
  // zeros before the first one.
  struct Imbalances {
    double before = 0.0, planned = 0.0;
  };
  const Imbalances& imbalances(int layer) const { return imbalances_[static_cast<size_t>(layer)]; }
  // Whether layers are to be planned or moved.
  bool busy() const;

  // Plans every layer anew by the loads of when its turn comes. kInvalidArgument: the planner has
  // no policy for so many nodes.
  Status Rebalance(int nodes);
  // Brings the layer of this number to `placement`. kInvalidArgument: there is no such layer with
  // experts, or as CheckPlacement.
  Status CheckWanted(int number, const Placement& placement) const;
  void Want(int number, const Placement& placement);  // REQUIRES: CheckWanted is fine with it

  // A step is about to begin, by which the interval is counted.
  void BeginStep(int64_t now_us);
  // Plans one layer, if one waits for it.
  void PlanNext(const Loads& loads);
  // The next copy to make, in a layer that none is under way in; nothing: none is to be made now.
  std::optional<SlotCopy> Begin();
  // The copy that Begin gave is made, of so many bytes.
  void End(const SlotCopy& copy, size_t bytes);

 private:
  int IndexOf(int number) const;  // -1: no such layer

  const Options options_;
  ExpertMap map_;
  Migration migration_;
  std::vector<bool> to_plan_;  // by layer
  int nodes_ = 1;              // of the plans that are to be made
  std::vector<Imbalances> imbalances_;
  BalanceTotals totals_;
  size_t next_ = 0;  // layer that Begin looks at first, so that all get on
  int64_t steps_ = 0, balanced_us_ = -1;
};

// The load of each rank, over the slots that `slot_loads` [slots] tells of; what the spare was
// given is no rank's.
std::vector<double> RankLoadsOf(const MapShape& shape, std::span<const double> slot_loads);

}  // namespace sluice::experts
