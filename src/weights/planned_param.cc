#include "weights/planned_param.h"

namespace sluice::weights {
namespace {

// The embedding whose bytes this matrix could read in place, or nullptr.
const PlannedParam* FindShared(const std::vector<std::unique_ptr<PlannedParam>>& earlier,
                               const PlannedParam& param) {
  if (param.resolved.spec.role != ParamRole::kLinear || param.parts.size() != 1 ||
      param.parts[0].count != 1 || param.parts[0].packing->layout != ops::LayoutId::kRowMajor) {
    return nullptr;
  }
  for (const auto& other : earlier) {
    if (other->resolved.spec.role == ParamRole::kEmbedding &&
        other->resolved.tensors.front() == param.resolved.tensors.front()) {
      return other.get();
    }
  }
  return nullptr;
}

}  // namespace

DType VectorDType(ParamRole role, DType activation) {
  return role == ParamRole::kBias ? activation : DType::kF32;
}

size_t PlannedParam::part_count() const {
  return resolved.spec.role == ParamRole::kLinear ? parts.size() : 1;
}

size_t PlannedParam::part_bytes(size_t i, DType activation) const {
  const ParamSpec& spec = resolved.spec;
  switch (spec.role) {
    case ParamRole::kLinear:
      return parts[i].bytes;
    case ParamRole::kEmbedding:
      return RowBytes(resolved.tensors.front()->dtype,
                      static_cast<size_t>(spec.rows * spec.columns));
    case ParamRole::kTaps:
      return RowBytes(DType::kF32, static_cast<size_t>(spec.rows * spec.columns));
    default:
      return RowBytes(VectorDType(spec.role, activation), static_cast<size_t>(spec.rows));
  }
}

size_t PlannedParam::bytes(DType activation) const {
  size_t total = 0;
  if (shares != nullptr || mapped != nullptr) return total;
  for (size_t i = 0; i < part_count(); ++i) total += part_bytes(i, activation);
  return total;
}

Result<std::vector<std::unique_ptr<PlannedParam>>> PlanParams(const std::vector<ParamSpec>& specs,
                                                              const files::TensorSource& source,
                                                              const ops::OpTable& table,
                                                              const PlaceOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(std::vector<ResolvedParam> resolved,
                          Resolve(specs, source, options.naming));
  std::vector<std::unique_ptr<PlannedParam>> planned;
  for (ResolvedParam& param : resolved) {
    auto plan = std::make_unique<PlannedParam>();
    if (param.spec.role == ParamRole::kLinear) {
      SLUICE_ASSIGN_OR_RETURN(plan->parts,
                              PlanParts(param, table, options.activation, options.records));
    }
    plan->resolved = std::move(param);
    plan->shares = FindShared(planned, *plan);
    planned.push_back(std::move(plan));
  }
  return planned;
}

}  // namespace sluice::weights
