#include "weights/repack.h"

#include <algorithm>

#include "base/check.h"
#include "weights/transform.h"

namespace sluice::weights {
namespace {

// Rows that are widened at a time.
constexpr int64_t kWidenRows = 256;

}  // namespace

Result<std::vector<PartPlan>> PlanParts(const ResolvedParam& param, const ops::OpTable& table,
                                        DType activation, std::vector<ops::BindRecord>* records) {
  std::vector<PartPlan> parts;
  int64_t row = 0;
  for (size_t i = 0; i < param.tensors.size(); ++i) {
    const DType dtype = LoadedDType(param.tensors[i]->dtype);
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
    SLUICE_ASSIGN_OR_RETURN(part.linear, ops::Bind<ops::Linear>(table, desc, records));
    part.packing = &ops::PackingOf(table, part.linear.name());
    part.bytes = part.packing->packed_bytes(desc);
  }
  return parts;
}

Status PackPart(const ResolvedParam& param, const PartPlan& plan, std::span<std::byte> out) {
  CHECK(out.size() == plan.bytes, param.spec.name, ": ", out.size(), " != ", plan.bytes);
  const ops::Linear::Desc& desc = plan.linear.desc();
  int64_t row = 0;
  for (size_t i = plan.first; i < plan.first + plan.count; ++i) {
    const files::FileTensor& tensor = *param.tensors[i];
    if (tensor.dtype != DType::kF8E4M3) {
      SLUICE_RETURN_IF_ERROR(plan.packing->pack(desc, row, tensor.data, out));
      row += tensor.shape[0];
      continue;
    }
    for (int64_t done = 0; done < tensor.shape[0]; done += kWidenRows) {
      const int64_t count = std::min(kWidenRows, tensor.shape[0] - done);
      const std::vector<std::byte> wide = WidenF8(tensor, param.scales[i], done, count);
      SLUICE_RETURN_IF_ERROR(plan.packing->pack(desc, row + done, wide, out));
    }
    row += tensor.shape[0];
  }
  return OkStatus();
}

}  // namespace sluice::weights
