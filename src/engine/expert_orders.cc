#include "engine/expert_orders.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/rounded.h"
#include "base/str_cat.h"

namespace sluice::engine {
namespace {

struct Wanted {
  int layer = 0;
  experts::Placement ranks;
};

bool IsCount(const Json& value) {
  return value.is_number_integer() && value.get<int64_t>() >= 0 && value.get<int64_t>() < (1 << 20);
}

Result<Wanted> ReadWanted(const Json& layer) {
  const auto number = layer.is_object() ? layer.find("layer") : layer.end();
  if (!layer.is_object() || number == layer.end() || !IsCount(*number) ||
      !layer.contains("ranks") || !layer["ranks"].is_array() || layer.size() != 2) {
    return InvalidArgument(
        "each of layers must be {\"layer\": NUMBER, \"ranks\": [[EXPERT, ...], ...]}, with a list "
        "for each rank",
        "layers");
  }
  Wanted wanted{number->get<int>(), {}};
  for (const Json& rank : layer["ranks"]) {
    if (!rank.is_array() || !std::all_of(rank.begin(), rank.end(), IsCount)) {
      return InvalidArgument(StrCat("ranks of layer ", wanted.layer,
                                    " must be lists of experts' numbers, one list for each rank"),
                             "ranks");
    }
    wanted.ranks.push_back(rank.get<std::vector<int32_t>>());
  }
  return wanted;
}

Result<std::vector<Wanted>> ReadLayers(const Json& layers) {
  if (!layers.is_array() || layers.empty()) {
    return InvalidArgument("layers must be a list of {\"layer\", \"ranks\"}, one at least",
                           "layers");
  }
  std::vector<Wanted> all;
  std::set<int> numbers;
  for (const Json& layer : layers) {
    SLUICE_ASSIGN_OR_RETURN(Wanted wanted, ReadWanted(layer));
    if (!numbers.insert(wanted.layer).second) {
      return InvalidArgument(StrCat("layer ", wanted.layer, " is given twice; give it once"),
                             "layers");
    }
    all.push_back(std::move(wanted));
  }
  return all;
}

OrderedJson Numbers(std::span<const double> numbers) {
  OrderedJson json = OrderedJson::array();
  for (const double number : numbers) json.push_back(Rounded(number));
  return json;
}

Status Apply(experts::Balancer* balancer, const std::vector<Wanted>& wanted, int nodes) {
  if (balancer == nullptr) {
    return Status(StatusCode::kFailedPrecondition,
                  "experts stay where they are; start with --expert-ranks for them to move");
  }
  if (wanted.empty()) return balancer->Rebalance(nodes);
  for (const Wanted& layer : wanted) {
    SLUICE_RETURN_IF_ERROR(balancer->CheckWanted(layer.layer, layer.ranks));
  }
  for (const Wanted& layer : wanted) balancer->Want(layer.layer, layer.ranks);
  return OkStatus();
}

}  // namespace

Result<std::string> MoveExperts(StepLoop& loop, exec::StepRunner& runner, const Json& command) {
  const bool by_hand = command.contains("layers"), rebalance = command.contains("rebalance");
  if (by_hand == rebalance || (by_hand && command.contains("nodes"))) {
    return InvalidArgument("give either layers, or rebalance with or without nodes",
                           by_hand ? "layers" : "rebalance");
  }
  std::vector<Wanted> wanted;
  int nodes = 1;
  if (by_hand) {
    SLUICE_ASSIGN_OR_RETURN(wanted, ReadLayers(command["layers"]));
  } else {
    if (command["rebalance"] != true) {
      return InvalidArgument("rebalance can be true alone; leave it out for layers by hand",
                             "rebalance");
    }
    const Json given = command.value("nodes", Json(1));
    if (!IsCount(given)) return InvalidArgument("nodes must be a whole number from 1 on", "nodes");
    nodes = given.get<int>();
  }
  Status status;
  const bool called = loop.Call([&](schedule::Scheduler&) {
    status = runner.ReadExpertLoads();  // what was counted a moment ago is planned for, too
    if (status.ok()) status = Apply(runner.ExpertBalancer(), wanted, nodes);
  });
  if (!called) return Status(StatusCode::kUnavailable, "the engine has stopped");
  SLUICE_RETURN_IF_ERROR(status);
  return std::string("{\"ok\":true}");
}

OrderedJson BalanceJson(const experts::Balancer& balancer, const experts::Loads& loads,
                        const experts::Loads& slot_loads) {
  const experts::ExpertMap& map = balancer.map();
  const experts::MapShape& shape = map.shape();
  const experts::BalanceTotals& totals = balancer.totals();
  OrderedJson layers = OrderedJson::array();
  std::vector<double> sums(static_cast<size_t>(shape.ranks));
  double worst = 1.0;
  for (int i = 0; i < map.layers(); ++i) {
    const std::vector<double> by_rank = experts::RankLoadsOf(shape, slot_loads.Of(i));
    for (size_t rank = 0; rank < sums.size(); ++rank) sums[rank] += by_rank[rank];
    const experts::Placement ranks = map.RanksOf(i);
    // Of the loads of now: slots tell of the time before experts moved, too.
    const double imbalance = experts::Imbalance(experts::RankLoads(ranks, loads.Of(i)));
    worst = std::max(worst, imbalance);
    OrderedJson layer{{"layer", balancer.options().layers[static_cast<size_t>(i)]},
                      {"version", map.version(i)},
                      {"ranks", ranks},
                      {"rank_load", Numbers(by_rank)},
                      {"imbalance", Rounded(imbalance)}};
    const auto& planned = balancer.imbalances(i);
    if (planned.before > 0) {
      layer["imbalance_before"] = Rounded(planned.before);
      layer["imbalance_planned"] = Rounded(planned.planned);
    }
    layers.push_back(std::move(layer));
  }
  return OrderedJson{{"ranks", shape.ranks},
                     {"redundant_experts", shape.spare() - shape.experts},
                     {"slots_per_rank", shape.slots_per_rank},
                     {"interval", balancer.options().interval_text},
                     {"version", map.version()},
                     {"moving", balancer.busy()},
                     {"imbalance", Rounded(worst)},
                     {"rank_load", Numbers(sums)},
                     {"plans", totals.plans},
                     {"plans_declined", totals.declined},
                     {"layers_moved", totals.layers},
                     {"migrations", totals.copies},
                     {"migrated_bytes", totals.bytes},
                     {"layers", std::move(layers)}};
}

}  // namespace sluice::engine
