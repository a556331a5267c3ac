// How long a plan of a whole model takes: 58 layers of 256 experts over 64 ranks with 10 percent
// replicas, as DeepSeek-V3 is served.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "experts/loads.h"
#include "experts/planner.h"

namespace sluice::experts {
namespace {

void BM_Plan(benchmark::State& state) {
  std::mt19937 random(5);
  std::vector<std::vector<double>> layers(58);
  for (std::vector<double>& loads : layers) {
    for (int i = 0; i < 256; ++i) loads.push_back(1e6 / (i + 1));
    std::shuffle(loads.begin(), loads.end(), random);
  }
  const int nodes = static_cast<int>(state.range(0));
  const PlanOptions options{
      .ranks = 64, .replicas = nodes == 1 ? 26 : 32, .nodes = nodes, .groups = 8};
  double worst = 0.0;
  for (auto _ : state) {
    for (const std::vector<double>& loads : layers)
      worst = std::max(worst, Imbalance(RankLoads(Plan(loads, options), loads)));
  }
  state.counters["imbalance"] = worst;
}
BENCHMARK(BM_Plan)->ArgName("nodes")->Arg(1)->Arg(8)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice::experts
