// Products of W in block formats with many tokens in BF16 by warpgroups: the same bits as the
// kernels of kernel_list.h give for few.
#pragma once

#include <string_view>

#include "backend/cuda/linear/product.h"

namespace sluice::cuda {

// Null where a format has none.
const char* BlockWgmmaFunction(DType weight);

// Whether they are faster than the kernels for few tokens.
bool SuitsBlockWgmma(const LinearShape& shape);

// The memory for the copy of `rows` rows of x and its sums.
size_t BlockWgmmaScratchBytes(const ops::Linear::Desc& desc, int64_t rows);

// Two launches: the copy of x, then the product. REQUIRES: SupportsProduct(kBf16, desc), a format
// with a function, x in BF16 with rows that begin at multiples of 8 bytes.
Status MultiplyBlockWgmma(device::Stream& stream, const ops::Linear::Desc& desc,
                          const LinearParams& product, const void* x, int64_t x_stride,
                          int compute_units);

}  // namespace sluice::cuda
