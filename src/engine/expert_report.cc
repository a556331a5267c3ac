#include "engine/expert_report.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/rounded.h"
#include "base/str_cat.h"
#include "engine/expert_orders.h"
#include "experts/planner.h"

namespace sluice::engine {
namespace {

Result<int> IntegerOf(const Json& command, const char* name, int otherwise) {
  const auto found = command.find(name);
  if (found == command.end()) return otherwise;
  constexpr int64_t kMax = 1'000'000;
  if (!found->is_number_integer() || found->get<int64_t>() < 0 || found->get<int64_t>() > kMax) {
    return InvalidArgument(StrCat(name, " must be a whole number from 0 to ", kMax), name);
  }
  return found->get<int>();
}

OrderedJson LoadsJson(const experts::Loads& loads) {
  OrderedJson json{{"experts", loads.experts()},
                   {"half_life_s", experts::kHalfLifeS},
                   {"choices", loads.choices()}};
  double worst = 1.0;
  OrderedJson layers = OrderedJson::array();
  for (size_t i = 0; i < loads.layers().size(); ++i) {
    const auto own = loads.Of(static_cast<int>(i));
    const double imbalance = experts::Imbalance(own);
    worst = std::max(worst, imbalance);
    OrderedJson load = OrderedJson::array();
    for (const double number : own) load.push_back(Rounded(number));
    layers.push_back(OrderedJson{{"layer", loads.layers()[i]},
                                 {"imbalance", Rounded(imbalance)},
                                 {"load", std::move(load)}});
  }
  json["imbalance"] = Rounded(worst);
  json["layers"] = std::move(layers);
  return json;
}

double RankImbalance(const experts::Placement& placement, std::span<const double> loads) {
  return experts::Imbalance(experts::RankLoads(placement, loads));
}

Result<OrderedJson> PlanJson(const experts::Loads& loads, const experts::PlanOptions& options) {
  SLUICE_RETURN_IF_ERROR(experts::CheckPlanOptions(options, loads.experts()));
  const experts::Placement in_order = experts::InOrder(loads.experts(), options.ranks);
  double before = 1.0, after = 1.0;
  OrderedJson layers = OrderedJson::array();
  for (size_t i = 0; i < loads.layers().size(); ++i) {
    const auto own = loads.Of(static_cast<int>(i));
    const experts::Placement placement = experts::Plan(own, options);
    const double planned = RankImbalance(placement, own);
    before = std::max(before, RankImbalance(in_order, own));
    after = std::max(after, planned);
    layers.push_back(OrderedJson{
        {"layer", loads.layers()[i]}, {"imbalance", Rounded(planned)}, {"ranks", placement}});
  }
  return OrderedJson{{"policy", options.nodes > 1 ? "hierarchical" : "global"},
                     {"ranks", options.ranks},
                     {"replicas", options.replicas},
                     {"nodes", options.nodes},
                     {"slots_per_rank", experts::CapacityOf(options, loads.experts())},
                     {"imbalance_in_order", Rounded(before)},
                     {"imbalance", Rounded(after)},
                     {"layers", std::move(layers)}};
}

}  // namespace

Result<std::string> AnswerExperts(StepLoop& loop, exec::StepRunner& runner, const Json& command) {
  std::optional<experts::Loads> loads;
  Status read;
  OrderedJson balance;
  const bool called = loop.Call([&](schedule::Scheduler&) {
    read = runner.ReadExpertLoads();
    if (runner.ExpertLoads() != nullptr) loads.emplace(*runner.ExpertLoads());
    const experts::Balancer* const balancer = runner.ExpertBalancer();
    if (balancer != nullptr) balance = BalanceJson(*balancer, *loads, *runner.ExpertSlotLoads());
  });
  if (!called) return Status(StatusCode::kUnavailable, "the engine has stopped");
  SLUICE_RETURN_IF_ERROR(read);
  if (!loads) {
    return Status(StatusCode::kFailedPrecondition,
                  "the model has no experts; its layers' feed-forward parts are whole");
  }
  OrderedJson json = LoadsJson(*loads);
  if (!balance.is_null()) json["balance"] = std::move(balance);
  experts::PlanOptions options;
  options.groups = runner.Info().expert_groups;
  SLUICE_ASSIGN_OR_RETURN(options.ranks, IntegerOf(command, "ranks", -1));
  SLUICE_ASSIGN_OR_RETURN(options.replicas, IntegerOf(command, "replicas", 0));
  SLUICE_ASSIGN_OR_RETURN(options.nodes, IntegerOf(command, "nodes", 1));
  if (options.ranks >= 0) {
    SLUICE_ASSIGN_OR_RETURN(json["plan"], PlanJson(*loads, options));
  } else if (command.contains("replicas") || command.contains("nodes")) {
    return InvalidArgument("ranks is missing: a plan is made for a number of ranks", "ranks");
  }
  return DumpJson(json);
}

}  // namespace sluice::engine
