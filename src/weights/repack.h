// From the rows of a checkpoint to the layout that the chosen Linear reads. Any thread.
#pragma once

#include <span>
#include <vector>

#include "ops/linear.h"
#include "ops/op.h"
#include "weights/manifest.h"

namespace sluice::weights {

// Consecutive sources of one number format: one matrix on the device, with its kernel chosen.
struct PartPlan {
  size_t first = 0, count = 0;  // of ResolvedParam::tensors
  DType dtype = DType::kF32;
  int64_t rows = 0, row_begin = 0;
  ops::Bound<ops::Linear> linear;
  const ops::LinearPacking* packing = nullptr;  // lives as long as the device's op table
  size_t bytes = 0;
};

// kUnimplemented when the device has no Linear for a part.
Result<std::vector<PartPlan>> PlanParts(const ResolvedParam& param, const ops::OpTable& table,
                                        DType activation, std::vector<ops::BindRecord>* records);

struct RowRange {
  int64_t begin = 0, end = 0;
};

// Bytes that these rows take on the device, where they lie together. REQUIRES: both ends are
// multiples of the packing's row_group, or the part's last row.
size_t PackedBytes(const PartPlan& plan, RowRange rows);

// Packs `rows` of the part into `out`, which holds the rows `held` as they lie on the device:
// PackedBytes(plan, held) bytes of host memory, zero where `rows` go. Calls for disjoint rows may
// run at the same time. REQUIRES: both ranges as for PackedBytes, `rows` lies in `held`.
Status PackPartRows(const ResolvedParam& param, const PartPlan& plan, RowRange held, RowRange rows,
                    std::span<std::byte> out);

}  // namespace sluice::weights
