// Weights as the linear kernels read them: 16 rows of W together, in groups one after another; rows
// that W lacks in its last group are zeros. kXpuInterleaved16, for any_f32_linear:
//   Plain formats: for each k the elements of the 16 rows.
//   Block formats: for each sub-block (ops/formats/format.h), k ascending: codes, then 16 scales,
//   then 16 minimums where the format has them. Codes of up to four bits that are integers or
//   E2M1 floats are nibbles, for each pair of k 16 bytes with the even k in the low half; others,
//   those of codebooks too, are signed bytes value - offset, 16 for each k. Scales and minimums are
//   F16 where that holds what ScaleOf and MinimumOf give: as in the file where sub-blocks have none
//   of their own, and those that are E4M3; else they are F32.
// kXpuNibbles16, for any_int8_linear: the same, integer nibbles alone, in another order: for each
// eight of k 64 bytes, four of each row, with k .. k + 3 in the low halves and k + 4 .. k + 7 in
// the high ones. Pure functions; any thread may call.
#pragma once

#include "ops/formats/format.h"
#include "ops/linear.h"

namespace sluice::xpu {

struct PackedShape {
  const ops::BlockFormat* format = nullptr;  // null: plain
  bool nibbles = false;
  bool e2m1 = false;  // nibbles are floats
  bool half_scales = false;
  size_t sub_bytes = 0;    // of a sub-block of 16 rows; of one k, where plain
  size_t group_bytes = 0;  // of 16 rows
};
inline constexpr int64_t kPackedRows = 16;

// REQUIRES: k is a multiple of the format's block.
PackedShape PackedShapeOf(DType weight, int64_t k);

// For LinearPacking. A weight has as many bytes in both layouts.
size_t PackedBytes(const ops::Linear::Desc& desc);
Status Pack(const ops::Linear::Desc& desc, int64_t first_row, std::span<const std::byte> rows,
            std::span<std::byte> packed);
// REQUIRES: PackedShapeOf says nibbles that are integers.
Status PackNibbles(const ops::Linear::Desc& desc, int64_t first_row,
                   std::span<const std::byte> rows, std::span<std::byte> packed);

}  // namespace sluice::xpu
