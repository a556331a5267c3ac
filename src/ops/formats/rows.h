// Rows of numbers between their stored formats and F32. Plain functions; any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "sluice/status.h"

namespace sluice::ops {

// Whether DequantizeRow takes the format: all floating-point and block formats, and of the integers
// I8, as numbers that a scale is still missing from.
bool CanDequantize(DType dtype);

// out[i] = element i of `row`, to the bit as ggml defines its formats.
// REQUIRES: CanDequantize(dtype); out.size() is a multiple of the block; `row` has
// RowBytes(dtype, out.size()) bytes, at any alignment.
void DequantizeRow(DType dtype, const std::byte* row, std::span<float> out);

// Whether QuantizeRow writes the format: all that DequantizeRow takes, without I8 and GGUF's
// formats with a table, a codebook or three values.
bool CanQuantize(DType dtype);

// Rounds every element to the nearest value that the format has under its block's scale. Blocks of
// 32 take it from their extremes (the rule of ggml's reference quantizers), K formats search for
// the scales with the least squared error. NaN in a block of integers becomes some number.
// REQUIRES: as above, with CanQuantize.
void QuantizeRow(DType dtype, std::span<const float> in, std::byte* row);

}  // namespace sluice::ops
