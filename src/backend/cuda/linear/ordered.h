// Products of a few tokens whose bits are those of cuBLASLt's kernels (sm90_ordered_linear.cu).
#pragma once

#include <cstdint>

#include "device/device.h"
#include "sluice/status.h"

namespace sluice::cuda {

struct ProductKind;
struct ProductCall;

// Whether there is a kernel for the kind. A matrix of many rows, as that of a vocabulary, fills the
// device in cuBLASLt as well.
bool HasOrdered(const ProductKind& kind);
// REQUIRES: HasOrdered(kind), 1 <= call.m <= kOrderedTokensMax.
Status MultiplyOrdered(device::Stream& stream, const ProductKind& kind, const ProductCall& call);

}  // namespace sluice::cuda
