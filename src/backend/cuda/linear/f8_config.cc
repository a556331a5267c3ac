#include "backend/cuda/linear/f8_config.h"

#include <algorithm>
#include <cmath>

#include "backend/cuda/linear/f8_kernel_list.h"

namespace sluice::cuda {
namespace {

#define F8_KERNEL(tokens, groups, cluster, unit_ns, tile_ns) \
  {"f8_linear_" #tokens "x" #groups "_rows",                 \
   "f8_linear_" #tokens "x" #groups "_blocks",               \
   "f8_grouped_" #tokens "x" #groups "_rows",                \
   "f8_grouped_" #tokens "x" #groups "_blocks",              \
   tokens,                                                   \
   groups,                                                   \
   cluster,                                                  \
   unit_ns,                                                  \
   tile_ns},
constexpr F8Kernel kKernels[] = {F8_LINEAR_LIST(F8_KERNEL)};
#undef F8_KERNEL

template <class T>
constexpr T DivideUp(T a, T b) {
  return (a + b - 1) / b;
}

// Experts that have rows, if as many as can do; a product that is not grouped has one.
int64_t Served(const F8Shape& shape) { return std::clamp<int64_t>(shape.experts, 1, shape.m); }

// How many tiles of `tokens` the rows of one expert make, on average, where each row falls to it by
// chance: an expert with a few more than a tile holds begins another, which reads its weights
// again. So as many experts with as many tokens each as a tile holds make half as many tiles more.
double TilesOfExpert(double rows, int tokens) {
  constexpr double kMany = 256.0;  // of which half a tile is left over
  if (rows > kMany) return rows / tokens + 0.5;
  double chance = std::exp(-rows), above = 1.0, tiles = 0.0;  // of exactly `count`; of more
  for (int count = 0; above > 1e-6; ++count) {
    above -= chance;
    if (count % tokens == 0) tiles += above;
    chance *= rows / (count + 1);
  }
  return tiles;
}

int64_t TokenTiles(const F8Kernel& kernel, const F8Shape& shape) {
  if (shape.experts == 0) return DivideUp<int64_t>(shape.m, kernel.tokens);
  const double rows = static_cast<double>(shape.m) / shape.experts;
  return std::max<int64_t>(1, std::llround(shape.experts * TilesOfExpert(rows, kernel.tokens)));
}

// How many tiles the thread block with the most of them makes, where `clusters` run.
int64_t Waves(const F8Kernel& kernel, const F8Shape& shape, int64_t token_tiles, int rows,
              int64_t clusters) {
  const int64_t bands = DivideUp<int64_t>(DivideUp<int64_t>(shape.n, rows), kernel.cluster);
  return DivideUp<int64_t>(bands * token_tiles, clusters);
}

// Thread blocks that share a multiprocessor take longer for a unit each, but less than twice as
// long: one waits for its products while the other adds. With few tokens there is little to wait
// for, and the second place is worth more to the product behind this one, which fetches weights.
constexpr int64_t kSharedPercent = 145;
bool MayShare(const F8Kernel& kernel, const F8Shape& shape) {
  constexpr int64_t kFewTokens = 16;
  return F8LeavesRoom(kernel.tokens, kernel.groups) &&
         std::min<int64_t>(kernel.tokens, DivideUp<int64_t>(shape.m, Served(shape))) > kFewTokens;
}

struct Residence {
  int64_t clusters = 0;     // that run at a time
  int64_t nanoseconds = 0;  // that all takes
};

// The time that reading the weights takes at least: what an H200 reads in a nanosecond, of which
// each multiprocessor gets its share.
int64_t ReadNanoseconds(const F8Shape& shape) {
  constexpr int64_t kBytes = 4200, kOfUnits = 132;
  return Served(shape) * shape.n * shape.k / kBytes * kOfUnits / std::max(1, shape.compute_units);
}

// A kernel runs with one or with two thread blocks to a multiprocessor, whichever is faster.
Residence ResidenceOf(const F8Kernel& kernel, const F8Shape& shape, int64_t token_tiles) {
  const int64_t alone = std::max(1, shape.compute_units / kernel.cluster);
  const int64_t units = DivideUp<int64_t>(shape.k, kF8Unit);
  const auto with = [&](int64_t clusters, int64_t percent) {
    const int64_t waves = Waves(kernel, shape, token_tiles, kernel.groups * kF8GroupRows, clusters);
    const int64_t tiles = waves * (units * kernel.unit_ns + kernel.tile_ns) * percent / 100;
    return Residence{clusters, std::max(tiles, ReadNanoseconds(shape))};
  };
  const Residence one = with(alone, 100);
  if (!MayShare(kernel, shape)) return one;
  const Residence two = with(2 * alone, kSharedPercent);
  return two.nanoseconds < one.nanoseconds ? two : one;
}

int RowsOf(const F8Kernel& kernel, const F8Shape& shape, int64_t token_tiles, int64_t clusters) {
  const int all = kernel.groups * kF8GroupRows;
  if (kernel.groups > 1) return all;
  // A tile takes the same with fewer rows: as few as make no more tiles, so that more
  // multiprocessors read.
  const auto waves_of = [&](int rows) { return Waves(kernel, shape, token_tiles, rows, clusters); };
  const int64_t waves = waves_of(all);
  int rows = all;
  while (rows > kF8RowsStep && waves_of(rows - kF8RowsStep) == waves) rows -= kF8RowsStep;
  return rows;
}

}  // namespace

std::span<const F8Kernel> F8Kernels() { return kKernels; }

F8Plan PlanF8With(const F8Kernel& kernel, const F8Shape& shape) {
  const int64_t token_tiles = TokenTiles(kernel, shape);
  const int64_t resident = ResidenceOf(kernel, shape, token_tiles).clusters;
  F8Plan plan = {.kernel = &kernel, .rows = RowsOf(kernel, shape, token_tiles, resident)};
  plan.row_tiles = static_cast<int>(DivideUp<int64_t>(shape.n, plan.rows));
  plan.token_tiles = static_cast<int>(token_tiles);
  const int64_t tiles = DivideUp<int64_t>(plan.row_tiles, kernel.cluster) * plan.token_tiles;
  plan.blocks = static_cast<unsigned>(std::min(tiles, resident) * kernel.cluster);
  plan.stage_bytes = F8StageBytes(kernel.tokens, kernel.groups, plan.rows);
  const bool grouped = shape.experts > 0;
  plan.stages = F8Stages(kernel.tokens, kernel.groups, plan.rows, grouped);
  plan.shared_bytes = F8RingBytes(plan.stages, plan.stage_bytes, kernel.groups, plan.rows) +
                      F8TurnBytes(kernel.tokens, kernel.groups) + kF8BarrierBytes +
                      F8TableBytes(grouped);
  return plan;
}

F8Plan PlanF8(const F8Shape& shape) {
  const F8Kernel* best = nullptr;
  int64_t least = 0;
  for (const F8Kernel& kernel : kKernels) {
    const int64_t takes = ResidenceOf(kernel, shape, TokenTiles(kernel, shape)).nanoseconds;
    if (best != nullptr && takes >= least) continue;
    best = &kernel;
    least = takes;
  }
  return PlanF8With(*best, shape);
}

F8Scratch F8ScratchOf(int64_t m, int64_t k, bool by_block) {
  constexpr size_t kAlignment = 256;
  F8Scratch scratch;
  scratch.scales = DivideUp(static_cast<size_t>(m * k), kAlignment) * kAlignment;
  scratch.scale_stride = m;
  const int64_t units = by_block ? DivideUp<int64_t>(k, kF8Unit) : 1;
  // A tile of grouped tokens begins anywhere and reads the scales of all that it might have.
  scratch.bytes =
      scratch.scales + static_cast<size_t>(units * scratch.scale_stride + kF8ScaleTokens) * 4;
  return scratch;
}

}  // namespace sluice::cuda
