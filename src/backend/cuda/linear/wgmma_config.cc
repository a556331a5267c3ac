#include "backend/cuda/linear/wgmma_config.h"

#include <algorithm>

#include "backend/cuda/linear/wgmma_kernel_list.h"

namespace sluice::cuda {
namespace {

#define WGMMA_KERNEL(tokens, groups, unit_ns) \
  {"bf16_wgmma_" #tokens "x" #groups, "f16_wgmma_" #tokens "x" #groups, tokens, groups, unit_ns},
constexpr WgmmaKernel kKernels[] = {WGMMA_LIST(WGMMA_KERNEL)};
#undef WGMMA_KERNEL

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How many tiles the thread block with the most of them makes.
int64_t Waves(const WgmmaKernel& kernel, const WgmmaShape& shape, int rows) {
  const int64_t tiles = DivideUp(shape.n, rows) * DivideUp(shape.m, kernel.tokens);
  return DivideUp(tiles, std::max(1, shape.compute_units));
}

int RowsOf(const WgmmaKernel& kernel, const WgmmaShape& shape) {
  const int all = kernel.groups * kWgmmaGroupRows;
  if (kernel.groups > 1) return all;
  // A tile takes the same with fewer rows: as few as make no more tiles, so that more
  // multiprocessors read.
  const int64_t waves = Waves(kernel, shape, all);
  int rows = all;
  while (rows > 8 && Waves(kernel, shape, rows - 8) == waves) rows -= 8;
  return rows;
}

int64_t Nanoseconds(const WgmmaKernel& kernel, const WgmmaShape& shape) {
  return Waves(kernel, shape, kernel.groups * kWgmmaGroupRows) * kernel.unit_ns *
         DivideUp(shape.k, kWgmmaUnit);
}

}  // namespace

std::span<const WgmmaKernel> WgmmaKernels() { return kKernels; }

WgmmaPlan PlanWgmmaWith(const WgmmaKernel& kernel, const WgmmaShape& shape) {
  WgmmaPlan plan = {.kernel = &kernel, .rows = RowsOf(kernel, shape)};
  plan.row_tiles = static_cast<int>(DivideUp(shape.n, plan.rows));
  plan.token_tiles = static_cast<int>(DivideUp(shape.m, kernel.tokens));
  plan.tokens = static_cast<int>(DivideUp(shape.m, plan.token_tiles));
  const int64_t tiles = int64_t{plan.row_tiles} * plan.token_tiles;
  plan.blocks = static_cast<unsigned>(std::min<int64_t>(tiles, std::max(1, shape.compute_units)));
  plan.stages = WgmmaStages(kernel.tokens, kernel.groups, plan.rows);
  plan.shared_bytes = WgmmaSharedBytes(kernel.tokens, kernel.groups, plan.rows, plan.stages);
  return plan;
}

WgmmaPlan PlanWgmma(const WgmmaShape& shape) {
  const WgmmaKernel* best = nullptr;
  for (const WgmmaKernel& kernel : kKernels) {
    // Few tokens are one tile: W is then read once.
    if (kernel.tokens < std::min(shape.m, kFewTokens)) continue;
    if (best == nullptr || Nanoseconds(kernel, shape) < Nanoseconds(*best, shape)) best = &kernel;
  }
  return PlanWgmmaWith(*best, shape);
}

}  // namespace sluice::cuda
