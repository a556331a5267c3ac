// Host cost of planning a list of copies: pieces of 256 bytes that never continue one another, in
// the order of their addresses and shuffled.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>

#include "base/check.h"
#include "device/copy_list.h"

namespace sluice::device {
namespace {

void BM_PlanCopies(benchmark::State& state) {
  constexpr size_t kBytes = 256, kStride = 512;
  constexpr DeviceId kGpu{DeviceKind::kCuda, 0};
  const auto count = static_cast<size_t>(state.range(0));
  std::vector<std::byte> from(count * kStride), to(count * kStride);
  std::vector<CopyItem> items;
  for (size_t i = 0; i < count; ++i) {
    items.push_back({{to.data() + i * kStride, kBytes, MemoryKind::kDevice, kGpu},
                     {from.data() + i * kStride, kBytes, MemoryKind::kPinned, kGpu}});
  }
  if (state.range(1) != 0) std::shuffle(items.begin(), items.end(), std::mt19937(1));
  std::vector<CopyRun> runs;
  for (auto _ : state) {
    CHECK(PlanCopies(kGpu, items, &runs).ok() && runs.back().batch == 0, runs.size());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_PlanCopies)->ArgsProduct({{8, 64, 1024, 16384}, {0, 1}});

}  // namespace
}  // namespace sluice::device
