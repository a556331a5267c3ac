// Linear in F8: codes of W times codes of x, both with scales.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

// Adds sm90_f8_linear: an F8_E4M3 weight with scales and x that becomes F8. REQUIRES: as
// RegisterLinear.
void RegisterF8Linear(ops::OpTable& table);

}  // namespace sluice::cuda
