// The IQ formats of GGUF with 1 to 3 bits a weight: a block has numbers of vectors of a codebook,
// signs, and a small scale for each 16 or 32 elements. Plain functions over values; any thread may
// call.
#pragma once

#include "ops/formats/format.h"

namespace sluice::ops {

// TakeApart for a format of kCodebookFormats. `block` has its bytes; every bit pattern is legal.
void TakeApartCodebook(const BlockFormat& format, const uint8_t* block, BlockParts* parts);

}  // namespace sluice::ops
