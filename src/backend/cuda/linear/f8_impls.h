// Linear in F8: codes of W times codes of x, both with scales.
#pragma once

#include "ops/linear.h"
#include "ops/op.h"

namespace sluice::cuda {

// Adds sm90_f8_linear: an F8_E4M3 weight with scales and x that becomes F8. Many rows go to
// cuBLASLt where it gives the bits that our kernels give few rows. REQUIRES: as RegisterLinear.
void RegisterF8Linear(ops::OpTable& table);

// Whether cuBLASLt may have products of the kind with our bits, which is then found out: scales
// that cover the same of W and of x, and no unit of k left over. To a product with scales of whole
// rows it adds a bias or a residual with one rounding less, which few outputs show.
bool CublasLtMayTake(const ops::Linear::Desc& desc);

}  // namespace sluice::cuda
