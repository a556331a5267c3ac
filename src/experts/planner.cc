#include "experts/planner.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/str_cat.h"

namespace sluice::experts {
namespace {

// Exchanges of one rank's copies with another's after the first placement, at most. On Zipf's
// distribution over 256 experts, 64 ranks and 26 replicas nothing is gained after about 50.
constexpr int kExchangesMax = 256;
// What copies have to do differs hardly above this share of the most. On the distribution above
// the busiest expert's last replica then comes before those of others, and the imbalance is 1.045
// instead of 1.086.
constexpr double kHardlyLess = 0.98;
// A rank this little above the mean is left alone.
constexpr double kGoodEnough = 1.005;

// A copy of an expert, and what it is given to do.
struct Copy {
  double load = 0.0;
  int32_t expert = 0;
};

struct Rank {
  std::vector<Copy> copies;
  double load = 0.0;

  bool Holds(int32_t expert) const {
    return std::any_of(copies.begin(), copies.end(),
                       [&](const Copy& copy) { return copy.expert == expert; });
  }
  void Add(const Copy& copy) {
    copies.push_back(copy);
    load += copy.load;
  }
  Copy Take(size_t index) {
    const Copy taken = copies[index];
    copies[index] = copies.back();
    copies.pop_back();
    load -= taken.load;
    return taken;
  }
};

// How many copies each expert gets, `replicas` beyond the first in all and at most one for each
// rank. Each goes to the expert whose copies have the most to do; of those that hardly differ, to
// the one with the most tokens, whose further copy makes the most copies lighter.
std::vector<int> CountCopies(std::span<const double> loads, int replicas, int ranks) {
  std::vector<int> copies(loads.size(), 1);
  const auto each = [&](size_t e) { return copies[e] < ranks ? loads[e] / copies[e] : -1.0; };
  for (; replicas > 0; --replicas) {
    double most = -1.0;
    for (size_t e = 0; e < loads.size(); ++e) most = std::max(most, each(e));
    CHECK(most >= 0.0, replicas, " replicas more than ranks can hold");
    size_t chosen = loads.size();
    for (size_t e = 0; e < loads.size(); ++e) {
      if (each(e) < most * kHardlyLess) continue;
      if (chosen == loads.size() || loads[e] > loads[chosen]) chosen = e;
    }
    ++copies[chosen];
  }
  return copies;
}

// Where every rank with room holds the expert already, another one's copy makes place for it. There
// is one: the expert has at most a copy for each rank, so a rank without it is full, and a full
// rank holds an expert that one with room does not.
void AddByExchange(const Copy& copy, int capacity, std::vector<Rank>* ranks) {
  const auto room = std::find_if(ranks->begin(), ranks->end(), [&](const Rank& rank) {
    return static_cast<int>(rank.copies.size()) < capacity;
  });
  CHECK(room != ranks->end(), "no rank has room");
  for (Rank& full : *ranks) {
    if (full.Holds(copy.expert)) continue;
    for (size_t i = 0; i < full.copies.size(); ++i) {
      if (room->Holds(full.copies[i].expert)) continue;
      room->Add(full.Take(i));
      full.Add(copy);
      return;
    }
  }
  CHECK(false, "no place for a copy of expert ", copy.expert);
}

// The heaviest first, each to the rank with the least to do.
std::vector<Rank> Spread(const std::vector<Copy>& copies, int count, int capacity) {
  std::vector<Rank> ranks(static_cast<size_t>(count));
  for (const Copy& copy : copies) {
    Rank* lightest = nullptr;
    for (Rank& rank : ranks) {
      if (static_cast<int>(rank.copies.size()) >= capacity) continue;
      if (lightest != nullptr && lightest->load <= rank.load) continue;
      if (!rank.Holds(copy.expert)) lightest = &rank;
    }
    if (lightest != nullptr) {
      lightest->Add(copy);
    } else {
      AddByExchange(copy, capacity, &ranks);
    }
  }
  return ranks;
}

// What an exchange of the heaviest rank with another one leaves the heavier of the two.
struct Exchange {
  double worst = 0.0;
  Rank* other = nullptr;  // null: there is none
  size_t given = 0;       // of the heaviest rank's copies
  size_t taken = 0;       // of the other's; as many as it has: it gives none
};

void Consider(const Rank& heaviest, Rank* other, int capacity, Exchange* best) {
  const double difference = heaviest.load - other->load;
  const bool room = static_cast<int>(other->copies.size()) < capacity;
  for (size_t g = 0; g < heaviest.copies.size(); ++g) {
    const Copy& given = heaviest.copies[g];
    if (other->Holds(given.expert)) continue;
    for (size_t t = 0; t < other->copies.size() + (room ? 1 : 0); ++t) {
      const bool takes = t < other->copies.size();
      const double gain = given.load - (takes ? other->copies[t].load : 0.0);
      if (gain <= 0.0 || gain >= difference) continue;
      const double worst = std::max(heaviest.load - gain, other->load + gain);
      if (worst >= best->worst) continue;
      if (takes && heaviest.Holds(other->copies[t].expert)) continue;
      *best = {worst, other, g, t};
    }
  }
}

// Exchanges copies of the heaviest rank for lighter ones, while that helps.
void Refine(int capacity, std::vector<Rank>* ranks) {
  double sum = 0.0;
  for (const Rank& rank : *ranks) sum += rank.load;
  const double mean = sum / static_cast<double>(ranks->size());
  const auto lighter = [](const Rank& a, const Rank& b) { return a.load < b.load; };
  for (int i = 0; i < kExchangesMax; ++i) {
    Rank& heaviest = *std::max_element(ranks->begin(), ranks->end(), lighter);
    if (heaviest.load <= kGoodEnough * mean) return;
    Exchange best{.worst = heaviest.load * (1.0 - 1e-9)};
    for (Rank& other : *ranks) {
      if (&other != &heaviest) Consider(heaviest, &other, capacity, &best);
    }
    if (best.other == nullptr) return;
    const bool takes = best.taken < best.other->copies.size();
    const Copy given = heaviest.Take(best.given);
    if (takes) heaviest.Add(best.other->Take(best.taken));
    best.other->Add(given);
  }
}

// The experts `ids`, which have these loads, over `ranks` ranks.
Placement PlanNode(std::span<const double> loads, std::span<const int32_t> ids, int replicas,
                   int ranks) {
  const std::vector<int> counts = CountCopies(loads, replicas, ranks);
  std::vector<Copy> copies;
  for (size_t e = 0; e < loads.size(); ++e) {
    const Copy copy{loads[e] / counts[e], ids[e]};
    copies.insert(copies.end(), static_cast<size_t>(counts[e]), copy);
  }
  std::stable_sort(copies.begin(), copies.end(),
                   [](const Copy& a, const Copy& b) { return a.load > b.load; });
  const int capacity = (static_cast<int>(copies.size()) + ranks - 1) / ranks;
  std::vector<Rank> spread = Spread(copies, ranks, capacity);
  Refine(capacity, &spread);
  Placement placement;
  for (const Rank& rank : spread) {
    std::vector<int32_t>& held = placement.emplace_back();
    for (const Copy& copy : rank.copies) held.push_back(copy.expert);
    std::sort(held.begin(), held.end());
  }
  return placement;
}

// Which groups each node has, equally many each: the heaviest first, to the node with the least to
// do.
std::vector<std::vector<int>> SpreadGroups(std::span<const double> loads,
                                           const PlanOptions& options) {
  const size_t size = loads.size() / static_cast<size_t>(options.groups);
  std::vector<Copy> groups;
  for (int g = 0; g < options.groups; ++g) {
    const auto begin = loads.begin() + static_cast<std::ptrdiff_t>(g * size);
    groups.push_back({std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(size), 0.0), g});
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Copy& a, const Copy& b) { return a.load > b.load; });
  const std::vector<Rank> nodes = Spread(groups, options.nodes, options.groups / options.nodes);
  std::vector<std::vector<int>> of_node;
  for (const Rank& node : nodes) {
    std::vector<int>& held = of_node.emplace_back();
    for (const Copy& group : node.copies) held.push_back(group.expert);
    std::sort(held.begin(), held.end());
  }
  return of_node;
}

Status CheckNumber(const char* name, int value, int low, int64_t high) {
  if (value >= low && value <= high) return OkStatus();
  return InvalidArgument(StrCat(name, " is ", value, "; it can be ", low, " to ", high), name);
}

}  // namespace

Status CheckPlanOptions(const PlanOptions& options, int experts) {
  const auto& [ranks, replicas, nodes, groups] = options;
  SLUICE_RETURN_IF_ERROR(CheckNumber("ranks", ranks, 1, kRanksMax));
  const int64_t room = std::min<int64_t>(experts, int64_t{experts} * (ranks - 1));
  SLUICE_RETURN_IF_ERROR(CheckNumber("replicas", replicas, 0, room));
  SLUICE_RETURN_IF_ERROR(CheckNumber("nodes", nodes, 1, ranks));
  if (ranks > experts + replicas) {
    return InvalidArgument(StrCat("ranks is ", ranks, ", more than the ", experts, " experts and ",
                                  replicas, " replicas of a layer: a rank would hold none"),
                           "ranks");
  }
  if (nodes == 1) return OkStatus();
  if (ranks % nodes != 0 || replicas % nodes != 0) {
    return InvalidArgument(StrCat("nodes is ", nodes, ", which divides not both the ", ranks,
                                  " ranks and the ", replicas, " replicas"),
                           "nodes");
  }
  if (groups % nodes != 0) {
    return InvalidArgument(
        StrCat("nodes is ", nodes, ", which does not divide the router's ", groups,
               " group(s) of experts; leave nodes out to plan over all "
               "ranks at once"),
        "nodes");
  }
  // Each node must be able to hold its share.
  const PlanOptions node{.ranks = ranks / nodes, .replicas = replicas / nodes};
  return CheckPlanOptions(node, experts / nodes);
}

int CapacityOf(const PlanOptions& options, int experts) {
  return (experts + options.replicas + options.ranks - 1) / options.ranks;
}

Placement Plan(std::span<const double> loads, const PlanOptions& options) {
  const auto experts = static_cast<int>(loads.size());
  const Status checked = CheckPlanOptions(options, experts);
  CHECK(checked.ok(), checked.message());
  std::vector<double> uniform;
  if (std::all_of(loads.begin(), loads.end(), [](double load) { return load <= 0.0; })) {
    uniform.assign(loads.size(), 1.0);
    loads = uniform;
  }
  std::vector<int32_t> ids(loads.size());
  std::iota(ids.begin(), ids.end(), 0);
  if (options.nodes == 1) return PlanNode(loads, ids, options.replicas, options.ranks);
  Placement placement;
  const int size = experts / options.groups;
  for (const std::vector<int>& groups : SpreadGroups(loads, options)) {
    std::vector<double> own;
    ids.clear();
    for (const int group : groups) {
      for (int32_t e = group * size; e < (group + 1) * size; ++e) {
        ids.push_back(e);
        own.push_back(loads[e]);
      }
    }
    Placement node =
        PlanNode(own, ids, options.replicas / options.nodes, options.ranks / options.nodes);
    std::move(node.begin(), node.end(), std::back_inserter(placement));
  }
  return placement;
}

Placement InOrder(int experts, int ranks) {
  Placement placement(static_cast<size_t>(ranks));
  for (int rank = 0, next = 0; rank < ranks; ++rank) {
    const int count = experts / ranks + (rank < experts % ranks ? 1 : 0);
    for (int i = 0; i < count; ++i) placement[rank].push_back(next++);
  }
  return placement;
}

std::vector<double> RankLoads(const Placement& placement, std::span<const double> loads) {
  std::vector<int> copies(loads.size());
  for (const std::vector<int32_t>& held : placement) {
    for (const int32_t expert : held) ++copies[expert];
  }
  std::vector<double> sums;
  for (const std::vector<int32_t>& held : placement) {
    double& sum = sums.emplace_back();
    for (const int32_t expert : held) sum += loads[expert] / copies[expert];
  }
  return sums;
}

}  // namespace sluice::experts
