// Linear with matrix tiles: rows of x are rounded to bf16 once, threads take pairs of groups of W.
#pragma once

#include "backend/cpu/linear/tiles.h"
#include "backend/cpu/stream.h"
#include "ops/linear.h"

namespace sluice::cpu {

// Up to here x is transposed; beyond, W is, a pair of groups at a time.
inline constexpr int64_t kStreamRowsMax = 2 * kTileRows;

// How m rows of x are passed over: `rows` at a time, whose bf16 stays in a core's second-level
// cache beside a pair of transposed groups. Pure.
int64_t TilePanelRows(int64_t m, int64_t row_bytes);

// For BF16 weights. REQUIRES: the arguments are checked.
Status RunTileLinear(CpuStream& stream, const ops::Linear::Desc& desc,
                     const ops::Linear::Args& args, const TileKernels& kernels);

}  // namespace sluice::cpu
