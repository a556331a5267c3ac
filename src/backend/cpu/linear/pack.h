// Makes the packed weights that packed.h describes. Plain functions; calls for disjoint groups may
// run at the same time.
#pragma once

#include <span>

#include "ops/linear.h"

namespace sluice::cpu {

// Bytes of one group of `lanes` rows. REQUIRES: k is a multiple of the format's block.
size_t GroupBytes(DType dtype, int64_t k, int lanes);

size_t PackedBytes(const ops::Linear::Desc& desc, int lanes);

// As ops::LinearPacking::pack.
Status PackRows(const ops::Linear::Desc& desc, int lanes, int64_t first_row,
                std::span<const std::byte> rows, std::span<std::byte> packed);

}  // namespace sluice::cpu
