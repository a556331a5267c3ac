#include "weights/repack.h"

#include <algorithm>

#include "base/check.h"
#include "weights/transform.h"

namespace sluice::weights {
namespace {

// Rows that are widened at a time.
constexpr int64_t kWidenRows = 256;

// A tensor and the first of its source's rows in what is packed; negative where they begin before
// that.
struct TensorRows {
  const files::FileTensor& tensor;
  const files::FileTensor* scale;  // of F8; or null
  int64_t row;
};

// Packs rows that lie together in their tensor into the matrix that `desc` is about.
Status PackRun(const ops::LinearPacking& packing, const ops::Linear::Desc& desc,
               const TensorRows& source, const RowRun& run, std::span<std::byte> out) {
  const files::FileTensor& tensor = source.tensor;
  if (tensor.dtype == desc.weight) {
    const size_t row_bytes = tensor.data.size() / static_cast<size_t>(tensor.shape[0]);
    return packing.pack(desc, source.row + run.row,
                        tensor.data.subspan(static_cast<size_t>(run.from) * row_bytes,
                                            static_cast<size_t>(run.count) * row_bytes),
                        out);
  }
  for (int64_t at = 0; at < run.count; at += kWidenRows) {
    const int64_t count = std::min(kWidenRows, run.count - at);
    const std::vector<std::byte> wide = WidenF8(tensor, source.scale, run.from + at, count);
    SLUICE_RETURN_IF_ERROR(packing.pack(desc, source.row + run.row + at, wide, out));
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
    parts.back().rows += param.sources[i].rows;
    row += param.sources[i].rows;
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
    const int64_t count = param.sources[i].rows;
    const int64_t end = std::min(rows.end - row, count);
    for (int64_t at = std::max<int64_t>(rows.begin - row, 0); at < end;) {
      const RowRun run = RunAt(param.sources[i], at, end);
      SLUICE_RETURN_IF_ERROR(PackRun(*plan.packing, desc, source, run, out));
      at += run.count;
    }
    row += count;
  }
  return OkStatus();
}

}  // namespace sluice::weights
