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

// Packs rows [begin, end) of the part into `out`: all of its plan.bytes bytes, host memory and zero
// where these rows go. Calls for disjoint rows may run at the same time.
// REQUIRES: begin is a multiple of the packing's row_group; so is end, or it is the part's last
// row.
Status PackPartRows(const ResolvedParam& param, const PartPlan& plan, int64_t begin, int64_t end,
                    std::span<std::byte> out);

}  // namespace sluice::weights
