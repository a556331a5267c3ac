#include "backend/cuda/linear/f8_config.h"

#include <algorithm>
#include <utility>

#include "backend/cuda/linear/f8_kernel_list.h"

namespace sluice::cuda {
namespace {

#define F8_KERNEL(tokens, groups, cluster)                                                       \
  {"f8_linear_" #tokens "x" #groups "_rows", "f8_linear_" #tokens "x" #groups "_blocks", tokens, \
   groups, cluster},
constexpr F8Kernel kKernels[] = {F8_LINEAR_LIST(F8_KERNEL)};
#undef F8_KERNEL

template <class T>
constexpr T DivideUp(T a, T b) {
  return (a + b - 1) / b;
}

// Rows of W in a tile below which a tile takes no less time: what its instructions and barriers
// take is then more than what reading takes. Measured on an H200 with 8 to 64 tokens.
constexpr int kRowsMin = 32;

// How many tiles the thread block with the most of them makes.
int64_t Waves(const F8Kernel& kernel, const F8Shape& shape, int rows) {
  const int64_t bands = DivideUp<int64_t>(DivideUp<int64_t>(shape.n, rows), kernel.cluster);
  const int64_t tiles = bands * DivideUp<int64_t>(shape.m, kernel.tokens);
  return DivideUp<int64_t>(tiles, std::max(1, shape.compute_units / kernel.cluster));
}

// Of what costs the same, few tiles, and then few rows, so that more multiprocessors read.
int RowsOf(const F8Kernel& kernel, const F8Shape& shape) {
  const int all = kernel.groups * kF8GroupRows;
  if (kernel.groups > 1) return all;
  const auto cost = [&](int rows) {
    const int64_t waves = Waves(kernel, shape, rows);
    return std::pair(waves * std::max(rows, kRowsMin), waves);
  };
  int best = all;
  for (int rows = all - 8; rows >= 8; rows -= 8) {
    if (cost(rows) <= cost(best)) best = rows;
  }
  return best;
}

}  // namespace

std::span<const F8Kernel> F8Kernels() { return kKernels; }

F8Plan PlanF8With(const F8Kernel& kernel, const F8Shape& shape) {
  F8Plan plan = {.kernel = &kernel, .rows = RowsOf(kernel, shape)};
  plan.row_tiles = static_cast<int>(DivideUp<int64_t>(shape.n, plan.rows));
  plan.token_tiles = static_cast<int>(DivideUp<int64_t>(shape.m, kernel.tokens));
  const int64_t tiles = DivideUp<int64_t>(plan.row_tiles, kernel.cluster) * plan.token_tiles;
  const int64_t clusters =
      std::min<int64_t>(tiles, std::max(1, shape.compute_units / kernel.cluster));
  plan.blocks = static_cast<unsigned>(clusters * kernel.cluster);
  plan.stage_bytes = F8StageBytes(kernel.tokens, plan.rows);
  plan.stages = F8Stages(kernel.tokens, kernel.groups, plan.rows);
  plan.shared_bytes = F8RingBytes(plan.stages, plan.stage_bytes, kernel.groups, plan.rows) +
                      F8TurnBytes(kernel.tokens, kernel.groups) + kF8BarrierBytes;
  return plan;
}

F8Plan PlanF8(const F8Shape& shape) {
  const F8Kernel* chosen = nullptr;
  int64_t least = 0;  // tokens that the busiest thread block multiplies by its rows
  for (const F8Kernel& kernel : kKernels) {
    if (kernel.groups == 1) {
      if (shape.m <= kernel.tokens) return PlanF8With(kernel, shape);
      continue;
    }
    const int64_t cost = Waves(kernel, shape, kernel.groups * kF8GroupRows) * kernel.tokens;
    if (chosen != nullptr && cost > least) continue;
    chosen = &kernel;
    least = cost;
  }
  return PlanF8With(*chosen, shape);
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
