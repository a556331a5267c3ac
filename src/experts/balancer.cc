#include "experts/balancer.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::experts {
namespace {

// A plan that takes less than this share off the busiest rank's load is not worth its copies: loads
// differ by as much from minute to minute.
constexpr double kGainMin = 0.02;
constexpr int64_t kIntervalMax = 1'000'000'000;

double ImbalanceOf(const Placement& placement, std::span<const double> loads) {
  return Imbalance(RankLoads(placement, loads));
}

}  // namespace

Result<BalanceInterval> ParseBalanceInterval(std::string_view text) {
  BalanceInterval interval;
  if (text == "none") return interval;
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, number);
  const bool seconds = read != end && std::string_view(read, end) == "s";
  if (error != std::errc() || number < 1 || number > kIntervalMax || (read != end && !seconds)) {
    return InvalidArgument(StrCat("--expert-balance-interval is ", Quote(text),
                                  "; it can be none, a number of steps "
                                  "as 3000, or of seconds as 60s"),
                           "expert-balance-interval");
  }
  (seconds ? interval.us : interval.steps) = seconds ? number * 1'000'000 : number;
  return interval;
}

Balancer::Balancer(Options options)
    : options_(std::move(options)),
      map_(options_.shape, static_cast<int>(options_.layers.size())),
      migration_(&map_),
      to_plan_(options_.layers.size()),
      imbalances_(options_.layers.size()) {}

bool Balancer::busy() const {
  for (int layer = 0; layer < map_.layers(); ++layer) {
    if (to_plan_[static_cast<size_t>(layer)] || migration_.Moves(layer)) return true;
  }
  return false;
}

int Balancer::IndexOf(int number) const {
  const auto found = std::find(options_.layers.begin(), options_.layers.end(), number);
  return found == options_.layers.end() ? -1 : static_cast<int>(found - options_.layers.begin());
}

Status Balancer::Rebalance(int nodes) {
  const PlanOptions plan{.ranks = options_.shape.ranks,
                         .replicas = options_.shape.spare() - options_.shape.experts,
                         .nodes = nodes,
                         .groups = options_.groups};
  SLUICE_RETURN_IF_ERROR(CheckPlanOptions(plan, options_.shape.experts));
  nodes_ = nodes;
  to_plan_.assign(to_plan_.size(), true);
  return OkStatus();
}

Status Balancer::CheckWanted(int number, const Placement& placement) const {
  if (IndexOf(number) < 0) {
    return InvalidArgument(StrCat("the model has no experts in layer ", number), "layer");
  }
  return CheckPlacement(placement, options_.shape, number);
}

void Balancer::Want(int number, const Placement& placement) {
  const int layer = IndexOf(number);
  to_plan_[static_cast<size_t>(layer)] = false;
  migration_.Want(layer, placement);
}

void Balancer::BeginStep(int64_t now_us) {
  const BalanceInterval& interval = options_.interval;
  if (balanced_us_ < 0) balanced_us_ = now_us;
  ++steps_;
  const bool due = (interval.steps > 0 && steps_ > interval.steps) ||
                   (interval.us > 0 && now_us - balanced_us_ >= interval.us);
  if (!due || busy()) return;
  steps_ = 1;
  balanced_us_ = now_us;
  to_plan_.assign(to_plan_.size(), true);
  nodes_ = 1;
}

void Balancer::PlanNext(const Loads& loads) {
  const auto waits = std::find(to_plan_.begin(), to_plan_.end(), true);
  if (waits == to_plan_.end()) return;
  const auto layer = static_cast<int>(waits - to_plan_.begin());
  if (migration_.Moves(layer)) return;  // its turn comes when that has ended
  *waits = false;
  const auto own = loads.Of(layer);
  const Placement placement =
      Plan(own, {.ranks = options_.shape.ranks,
                 .replicas = options_.shape.spare() - options_.shape.experts,
                 .nodes = nodes_,
                 .groups = options_.groups});
  Imbalances& imbalances = imbalances_[static_cast<size_t>(layer)];
  imbalances = {ImbalanceOf(map_.RanksOf(layer), own), ImbalanceOf(placement, own)};
  ++totals_.plans;
  if (imbalances.planned > imbalances.before * (1.0 - kGainMin)) {
    ++totals_.declined;
    imbalances.planned = imbalances.before;
    return;
  }
  migration_.Want(layer, placement);
}

std::optional<SlotCopy> Balancer::Begin() {
  const auto layers = static_cast<size_t>(map_.layers());
  for (size_t i = 0; i < layers; ++i) {
    const auto layer = static_cast<int>((next_ + i) % layers);
    if (!migration_.Moves(layer)) continue;
    const auto copy = migration_.Begin(layer);
    if (!copy && !migration_.Moves(layer)) ++totals_.layers;
    if (!copy) continue;
    next_ = (static_cast<size_t>(layer) + 1) % layers;
    return copy;
  }
  return std::nullopt;
}

void Balancer::End(const SlotCopy& copy, size_t bytes) {
  migration_.End(copy);
  ++totals_.copies;
  totals_.bytes += bytes;
}

std::vector<double> RankLoadsOf(const MapShape& shape, std::span<const double> slot_loads) {
  CHECK(static_cast<int>(slot_loads.size()) == shape.slots(), slot_loads.size(), " loads");
  std::vector<double> loads(static_cast<size_t>(shape.ranks));
  for (size_t rank = 0; rank < loads.size(); ++rank) {
    const auto own = slot_loads.subspan(rank * static_cast<size_t>(shape.slots_per_rank),
                                        static_cast<size_t>(shape.slots_per_rank));
    loads[rank] = std::accumulate(own.begin(), own.end(), 0.0);
  }
  return loads;
}

}  // namespace sluice::experts
