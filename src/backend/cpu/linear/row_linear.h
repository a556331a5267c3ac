// Linear over rows as a file has them, for formats that no other kernel is packed from.
#pragma once

#include "ops/op.h"

namespace sluice::cpu {

// Adds "any_codebook_linear" and "any_codebook_grouped_linear": products of weights whose codes are
// vectors of a codebook, by the steps of the reference, shared out among the threads by rows of W.
// Their weights stay as small as in the file; taking them apart costs more than multiplying them.
void RegisterRowLinear(ops::OpTable& table);

}  // namespace sluice::cpu
