#include "backend/cuda/linear/f8_config.h"

#include <algorithm>
#include <iterator>

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

int64_t TokenTiles(const F8Kernel& kernel, const F8Shape& shape) {
  const int64_t served = std::clamp<int64_t>(shape.experts, 1, shape.m);
  return served * DivideUp<int64_t>(DivideUp<int64_t>(shape.m, served), kernel.tokens);
}

// How many tiles the thread block with the most of them makes.
int64_t Waves(const F8Kernel& kernel, const F8Shape& shape, int rows) {
  const int64_t bands = DivideUp<int64_t>(DivideUp<int64_t>(shape.n, rows), kernel.cluster);
  const int64_t tiles = bands * TokenTiles(kernel, shape);
  return DivideUp<int64_t>(tiles, std::max(1, shape.compute_units / kernel.cluster));
}

int RowsOf(const F8Kernel& kernel, const F8Shape& shape) {
  const int all = kernel.groups * kF8GroupRows;
  if (kernel.groups > 1) return all;
  // A tile takes the same with fewer rows: as few as make no more tiles, so that more
  // multiprocessors read.
  const int64_t waves = Waves(kernel, shape, all);
  int rows = all;
  while (rows > 8 && Waves(kernel, shape, rows - 8) == waves) rows -= 8;
  return rows;
}

int64_t Nanoseconds(const F8Kernel& kernel, const F8Shape& shape) {
  const int64_t units = DivideUp<int64_t>(shape.k, kF8Unit);
  return Waves(kernel, shape, kernel.groups * kF8GroupRows) *
         (units * kernel.unit_ns + kernel.tile_ns);
}

}  // namespace

std::span<const F8Kernel> F8Kernels() { return kKernels; }

F8Plan PlanF8With(const F8Kernel& kernel, const F8Shape& shape) {
  F8Plan plan = {.kernel = &kernel, .rows = RowsOf(kernel, shape)};
  plan.row_tiles = static_cast<int>(DivideUp<int64_t>(shape.n, plan.rows));
  plan.token_tiles = static_cast<int>(TokenTiles(kernel, shape));
  const int64_t tiles = DivideUp<int64_t>(plan.row_tiles, kernel.cluster) * plan.token_tiles;
  const int64_t clusters =
      std::min<int64_t>(tiles, std::max(1, shape.compute_units / kernel.cluster));
  plan.blocks = static_cast<unsigned>(clusters * kernel.cluster);
  plan.stage_bytes = F8StageBytes(kernel.tokens, plan.rows);
  const bool grouped = shape.experts > 0;
  plan.stages = F8Stages(kernel.tokens, kernel.groups, plan.rows, grouped);
  plan.shared_bytes = F8RingBytes(plan.stages, plan.stage_bytes, kernel.groups, plan.rows) +
                      F8TurnBytes(kernel.tokens, kernel.groups) + kF8BarrierBytes +
                      F8TableBytes(grouped);
  return plan;
}

F8Plan PlanF8(const F8Shape& shape) {
  const auto faster = [&](const F8Kernel& a, const F8Kernel& b) {
    return Nanoseconds(a, shape) < Nanoseconds(b, shape);
  };
  return PlanF8With(*std::min_element(std::begin(kKernels), std::end(kKernels), faster), shape);
}

F8Scratch F8ScratchOf(int64_t m, int64_t k, bool by_block) {
  constexpr size_t kAlignment = 256;
  F8Scratch scratch;
  scratch.scales = DivideUp(static_cast<size_t>(m * k), kAlignment) * kAlignment;
  scratch.scale_stride = DivideUp(m, kF8ScaleTokens) * kF8ScaleTokens;
  const int64_t units = by_block ? DivideUp<int64_t>(k, kF8Unit) : 1;
  scratch.bytes = scratch.scales + static_cast<size_t>(units * scratch.scale_stride) * 4;
  return scratch;
}

}  // namespace sluice::cuda
