#include "weights/repack.h"

#include <algorithm>

#include "base/check.h"
#include "weights/transform.h"

namespace sluice::weights {
namespace {

// Rows that are widened at a time.
constexpr int64_t kWidenRows = 256;

// A source and its first row in the part.
struct TensorRows {
  const files::FileTensor& tensor;
  const files::FileTensor* scale;  // of F8; or null
  int64_t row;
};

// Packs rows [begin, end) of a source.
Status PackRows(const PartPlan& plan, const TensorRows& source, int64_t begin, int64_t end,
                std::span<std::byte> out) {
  const ops::Linear::Desc& desc = plan.linear.desc();
  const files::FileTensor& tensor = source.tensor;
  if (tensor.dtype == plan.dtype) {
    const size_t row_bytes = tensor.data.size() / static_cast<size_t>(tensor.shape[0]);
    return plan.packing->pack(desc, source.row + begin,
                              tensor.data.subspan(static_cast<size_t>(begin) * row_bytes,
                                                  static_cast<size_t>(end - begin) * row_bytes),
                              out);
  }
  for (int64_t at = begin; at < end; at += kWidenRows) {
    const int64_t count = std::min(kWidenRows, end - at);
    const std::vector<std::byte> wide = WidenF8(tensor, source.scale, at, count);
    SLUICE_RETURN_IF_ERROR(plan.packing->pack(desc, source.row + at, wide, out));
  }
  return OkStatus();
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
    desc.f32_out = param.spec.f32_out;
    SLUICE_ASSIGN_OR_RETURN(part.linear, ops::Bind<ops::Linear>(table, desc, records));
    part.packing = &ops::PackingOf(table, part.linear.name());
    part.bytes = part.packing->packed_bytes(desc);
  }
  return parts;
}

Status PackPartRows(const ResolvedParam& param, const PartPlan& plan, int64_t begin, int64_t end,
                    std::span<std::byte> out) {
  CHECK(out.size() == plan.bytes, param.spec.name, ": ", out.size(), " != ", plan.bytes);
  int64_t row = 0;
  for (size_t i = plan.first; i < plan.first + plan.count; ++i) {
    const TensorRows source{*param.tensors[i], param.scales[i], row};
    const int64_t rows = source.tensor.shape[0];
    const int64_t from = std::max<int64_t>(begin - row, 0), to = std::min(end - row, rows);
    if (from < to) SLUICE_RETURN_IF_ERROR(PackRows(plan, source, from, to, out));
    row += rows;
  }
  return OkStatus();
}

}  // namespace sluice::weights
