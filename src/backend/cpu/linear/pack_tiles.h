// Makes the packed weights that tiles.h describes. Plain functions; calls for disjoint groups may
// run at the same time.
#pragma once

#include <span>

#include "ops/linear.h"

namespace sluice::cpu {

// Bytes of one group of BF16 rows.
size_t TileGroupBytes(int64_t k);

size_t TilePackedBytes(const ops::Linear::Desc& desc);

// As ops::LinearPacking::pack.
Status PackTileRows(const ops::Linear::Desc& desc, int64_t first_row,
                    std::span<const std::byte> rows, std::span<std::byte> packed);

}  // namespace sluice::cpu
