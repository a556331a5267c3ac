// Rows of numbers between their stored formats and F32. Plain functions; any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "sluice/status.h"

namespace sluice::ops {

// Whether DequantizeRow takes the format: all floating-point and block formats, not the integers.
bool CanDequantize(DType dtype);

// out[i] = element i of `row`, to the bit as ggml defines its formats.
// REQUIRES: CanDequantize(dtype); out.size() is a multiple of the block; `row` has
// RowBytes(dtype, out.size()) bytes, at any alignment.
void DequantizeRow(DType dtype, const std::byte* row, std::span<float> out);

// Whether QuantizeRow writes the format: F32, F16, BF16, F8_E4M3, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1.
bool CanQuantize(DType dtype);

// Rounds every element to the nearest value that the format has under the block's scale, which is
// chosen from the block's extremes (the rule of ggml's reference quantizers). NaN in a block of
// integers becomes some number. REQUIRES: as above, with CanQuantize.
void QuantizeRow(DType dtype, std::span<const float> in, std::byte* row);

}  // namespace sluice::ops
