// The search behind the K formats, whose sub-blocks have scales that are themselves quantized.
// Plain functions over values; any thread may call.
#pragma once

#include "ops/formats/format.h"

namespace sluice::ops {

// Chooses scales, minimums and codes of one block of 256 so that the weighted squared error is
// small; large elements weigh more. Values that are not finite count as 0.
// REQUIRES: format.sub_scales; `in` has format.block elements.
void FitSuperBlock(const BlockFormat& format, const float* in, BlockParts* parts);

}  // namespace sluice::ops
