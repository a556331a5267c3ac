// What will lie where on a device, decided before anything is allocated or a weight's byte is read:
// which tensors of the checkpoint each parameter takes, in which number formats it is kept, which
// kernels read it, and how many bytes that makes. Place makes it so. Plain values; any thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "device/device.h"
#include "ops/grouped_linear.h"
#include "ops/linear.h"
#include "ops/op.h"
#include "weights/manifest.h"

namespace sluice::weights {

struct PlanOptions {
  Naming naming = Naming::kHuggingFace;
  DType activation = DType::kF32;
  std::optional<files::F8Quantization> quantization = {};
};

struct RowRange {
  int64_t begin = 0, end = 0;
};

// Rows [row_begin, row_begin + rows) of a parameter, which lie together in one number format, or
// the scales of such rows or the order of their columns.
struct PlannedPart {
  size_t first = 0, count = 0;  // of ResolvedParam::tensors
  DType dtype = DType::kF32;    // on the device
  int64_t rows = 0, row_begin = 0;
  int64_t row_group = 1;                        // rows whose bytes cannot be told apart
  ops::Bound<ops::Linear> linear;               // kLinear
  ops::Bound<ops::GroupedLinear> grouped;       // kExperts
  ops::Linear::Desc packed;                     // both: of all rows, as they are packed
  const ops::LinearPacking* packing = nullptr;  // both; lives as long as the device's op table
  // The part whose scales these are, F32: of its weight, then of x where the checkpoint has one.
  std::optional<size_t> scales_of;
  std::optional<size_t> order_of;  // the part whose order of columns this is, I32
  size_t bytes = 0;
  device::View place;  // on the device; filled by Place

  // That these rows take where they lie together. REQUIRES: both ends are multiples of row_group,
  // or the part's last row.
  size_t BytesOf(RowRange range) const;
};

struct PlannedParam {
  ResolvedParam resolved;
  // Of a kLinear as many as there are runs of sources of one number format, whose scales and orders
  // of columns fit together, then scales, then orders; of kExperts likewise, by the sources of one
  // expert; of others one.
  std::vector<PlannedPart> parts;
  // Of the plan, by index: an embedding with the same rows in the same layout, whose memory a
  // kLinear reads.
  std::optional<size_t> shares;
  std::shared_ptr<std::byte> mapped;  // kEmbedding: its rows, read from the file in place; or null

  size_t bytes() const;  // that have to be allocated
};

struct WeightPlan {
  PlanOptions options;
  const files::TensorSource* source = nullptr;  // must outlive the plan
  std::vector<PlannedParam> params;             // in the order of the specs
  std::vector<ops::BindRecord> records;         // of the matrices
  size_t bytes = 0;                             // that Place will allocate
};

// Errors are those of Resolve; kUnimplemented where the device has no Linear for a matrix.
Result<WeightPlan> PlanWeights(const std::vector<ParamSpec>& specs,
                               const files::TensorSource& source, const device::Device& device,
                               const PlanOptions& options);

}  // namespace sluice::weights
