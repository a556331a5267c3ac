#include "weights/repack.h"

#include <cstring>

#include "base/check.h"
#include "weights/transform.h"

namespace sluice::weights {

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
    const ops::LinearPacking& packing = ops::PackingOf(part.linear.name());
    part.layout = packing.layout;
    part.bytes = packing.packed_bytes(desc);
  }
  return parts;
}

Status PackPart(const ResolvedParam& param, const PartPlan& plan, std::span<std::byte> out) {
  CHECK(out.size() == plan.bytes, param.spec.name, ": ", out.size(), " != ", plan.bytes);
  const ops::LinearPacking& packing = ops::PackingOf(plan.linear.name());
  const files::FileTensor& first = *param.tensors[plan.first];
  if (plan.count == 1 && first.dtype != DType::kF8E4M3) {
    return packing.pack(plan.linear.desc(), first.data, out);
  }
  std::vector<std::byte> rows;
  rows.reserve(RowBytes(plan.dtype, static_cast<size_t>(plan.rows * param.spec.columns)));
  for (size_t i = plan.first; i < plan.first + plan.count; ++i) {
    const files::FileTensor& tensor = *param.tensors[i];
    if (tensor.dtype == DType::kF8E4M3) {
      const std::vector<std::byte> wide = WidenF8(tensor, param.scales[i]);
      rows.insert(rows.end(), wide.begin(), wide.end());
    } else {
      rows.insert(rows.end(), tensor.data.begin(), tensor.data.end());
    }
  }
  return packing.pack(plan.linear.desc(), rows, out);
}

}  // namespace sluice::weights
