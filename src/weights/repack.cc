#include "weights/repack.h"

#include <algorithm>

#include "base/check.h"
#include "weights/transform.h"

namespace sluice::weights {
namespace {

// Rows that are widened at a time.
constexpr int64_t kWidenRows = 256;

// A source and its first row in what is packed; negative where it begins before that.
struct TensorRows {
  const files::FileTensor& tensor;
  const files::FileTensor* scale;  // of F8; or null
  int64_t row;
};

// Packs rows [begin, end) of a source into the matrix that `desc` is about.
Status PackRows(const ops::LinearPacking& packing, const ops::Linear::Desc& desc,
                const TensorRows& source, RowRange rows, std::span<std::byte> out) {
  const files::FileTensor& tensor = source.tensor;
  if (tensor.dtype == desc.weight) {
    const size_t row_bytes = tensor.data.size() / static_cast<size_t>(tensor.shape[0]);
    return packing.pack(desc, source.row + rows.begin,
                        tensor.data.subspan(static_cast<size_t>(rows.begin) * row_bytes,
                                            static_cast<size_t>(rows.end - rows.begin) * row_bytes),
                        out);
  }
  for (int64_t at = rows.begin; at < rows.end; at += kWidenRows) {
    const int64_t count = std::min(kWidenRows, rows.end - at);
    const std::vector<std::byte> wide = WidenF8(tensor, source.scale, at, count);
    SLUICE_RETURN_IF_ERROR(packing.pack(desc, source.row + at, wide, out));
  }
  return OkStatus();
}

ops::Linear::Desc DescOf(const PartPlan& plan, RowRange rows) {
  ops::Linear::Desc desc = plan.linear.desc();
  desc.n = rows.end - rows.begin;
  return desc;
}

}  // namespace

Result<std::vector<PartPlan>> PlanParts(const ResolvedParam& param, const ops::OpTable& table,
                                        DType activation, std::vector<ops::BindRecord>* records) {
  std::vector<PartPlan> parts;
  int64_t row = 0;
  for (size_t i = 0; i < param.tensors.size(); ++i) {
    const DType dtype = LoadedDType(*param.tensors[i], param.scales[i], activation);
    if (parts.empty() || parts.back().dtype != dtype) {
      PartPlan part;
      part.first = i;
      part.dtype = dtype;
      part.row_begin = row;
      parts.push_back(std::move(part));
    }
    parts.back().count += 1;
    parts.back().rows += param.tensors[i]->shape[0];
    row += param.tensors[i]->shape[0];
  }
  for (PartPlan& part : parts) {
    ops::Linear::Desc desc;
    desc.weight = part.dtype;
    desc.activation = activation;
    desc.n = part.rows;
    desc.k = param.spec.columns;
    desc.bias = param.spec.bias;
    desc.residual = param.spec.residual;
    // A product with a residual is added to the residual stream.
    const bool f32_sums = ops::ResidualDType(activation) != activation;
    desc.f32_out = param.spec.f32_out || (param.spec.residual && f32_sums);
    SLUICE_ASSIGN_OR_RETURN(part.linear, ops::Bind<ops::Linear>(table, desc, records));
    part.packing = &ops::PackingOf(table, part.linear.name());
    part.bytes = part.packing->packed_bytes(desc);
  }
  return parts;
}

size_t PackedBytes(const PartPlan& plan, RowRange rows) {
  return plan.packing->packed_bytes(DescOf(plan, rows));
}

Status PackPartRows(const ResolvedParam& param, const PartPlan& plan, RowRange held, RowRange rows,
                    std::span<std::byte> out) {
  CHECK(held.begin <= rows.begin && rows.end <= held.end, param.spec.name, ": rows ", rows.begin,
        " to ", rows.end, " of ", held.begin, " to ", held.end);
  const ops::Linear::Desc desc = DescOf(plan, held);
  int64_t row = 0;
  for (size_t i = plan.first; i < plan.first + plan.count; ++i) {
    const TensorRows source{*param.tensors[i], param.scales[i], row - held.begin};
    const int64_t count = source.tensor.shape[0];
    const RowRange part{std::max<int64_t>(rows.begin - row, 0), std::min(rows.end - row, count)};
    if (part.begin < part.end) {
      SLUICE_RETURN_IF_ERROR(PackRows(*plan.packing, desc, source, part, out));
    }
    row += count;
  }
  return OkStatus();
}

}  // namespace sluice::weights
