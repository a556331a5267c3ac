#include "weights/plan.h"

#include <algorithm>

#include "weights/transform.h"

namespace sluice::weights {
namespace {

// Rows that are read in place: every number format's own alignment, and GGUF's least.
constexpr uintptr_t kMappedAlignment = 8;

// Consecutive sources of one number format.
std::vector<PlannedPart> SplitByFormat(const ResolvedParam& param, DType activation) {
  std::vector<PlannedPart> parts;
  int64_t row = 0;
  for (size_t i = 0; i < param.tensors.size(); ++i) {
    const DType dtype = LoadedDType(*param.tensors[i], param.scales[i], activation);
    if (parts.empty() || parts.back().dtype != dtype) {
      parts.push_back({.first = i, .dtype = dtype, .row_begin = row});
    }
    parts.back().count += 1;
    parts.back().rows += param.sources[i].rows;
    row += param.sources[i].rows;
  }
  return parts;
}

// Chooses the kernel of a part, and with it the layout.
Status BindPart(const ParamSpec& spec, const ops::OpTable& table, DType activation,
                std::vector<ops::BindRecord>* records, PlannedPart* part) {
  ops::Linear::Desc desc;
  desc.weight = part->dtype;
  desc.activation = activation;
  desc.n = part->rows;
  desc.k = spec.columns;
  desc.bias = spec.bias;
  desc.residual = spec.residual;
  // A product with a residual is added to the residual stream.
  const bool f32_sums = ops::ResidualDType(activation) != activation;
  desc.f32_out = spec.f32_out || (spec.residual && f32_sums);
  SLUICE_ASSIGN_OR_RETURN(part->linear, ops::Bind<ops::Linear>(table, desc, records));
  part->packing = &ops::PackingOf(table, part->linear.name());
  part->row_group = part->packing->row_group;
  part->bytes = part->packing->packed_bytes(desc);
  return OkStatus();
}

// An embedding lies as it is stored; other parameters that are no matrices are converted whole.
PlannedPart PartOf(const ResolvedParam& param, DType activation) {
  const ParamSpec& spec = param.spec;
  const bool table = spec.role == ParamRole::kEmbedding;
  PlannedPart part;
  part.count = param.tensors.size();
  part.dtype = table                           ? param.tensors.front()->dtype
               : spec.role == ParamRole::kBias ? activation
                                               : DType::kF32;
  part.rows = spec.rows;
  part.row_group = table ? 1 : spec.rows;
  part.bytes =
      RowBytes(part.dtype, static_cast<size_t>(spec.rows * std::max<int64_t>(spec.columns, 1)));
  return part;
}

// The embedding whose bytes this matrix can read in place.
std::optional<size_t> FindShared(const std::vector<PlannedParam>& earlier,
                                 const PlannedParam& param) {
  const PlannedPart& part = param.parts.front();
  if (param.parts.size() != 1 || part.count != 1 || part.packing == nullptr ||
      part.packing->layout != ops::LayoutId::kRowMajor) {
    return std::nullopt;
  }
  for (size_t i = 0; i < earlier.size(); ++i) {
    if (earlier[i].resolved.spec.role == ParamRole::kEmbedding &&
        earlier[i].resolved.tensors.front() == param.resolved.tensors.front()) {
      return i;
    }
  }
  return std::nullopt;
}

// Of an embedding a token reads one row: where the device reads host memory, the file's rows serve.
std::shared_ptr<std::byte> Map(const ResolvedParam& param, const files::TensorSource& source,
                               const device::Device& device) {
  if (param.spec.role != ParamRole::kEmbedding || device.facts().device_memory) return nullptr;
  auto mapped = source.MapPrivately(*param.tensors.front());
  return reinterpret_cast<uintptr_t>(mapped.get()) % kMappedAlignment == 0 ? mapped : nullptr;
}

}  // namespace

size_t PlannedPart::BytesOf(RowRange range) const {
  const int64_t taken = range.end - range.begin;
  if (packing == nullptr) return bytes / static_cast<size_t>(rows) * static_cast<size_t>(taken);
  ops::Linear::Desc desc = linear.desc();
  desc.n = taken;
  return packing->packed_bytes(desc);
}

size_t PlannedParam::bytes() const {
  size_t total = 0;
  if (shares || mapped != nullptr) return total;
  for (const PlannedPart& part : parts) total += part.bytes;
  return total;
}

Result<WeightPlan> PlanWeights(const std::vector<ParamSpec>& specs,
                               const files::TensorSource& source, const device::Device& device,
                               const PlanOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(std::vector<ResolvedParam> resolved,
                          Resolve(specs, source, options.naming));
  WeightPlan plan{options, &source, {}, {}, 0};
  for (ResolvedParam& from : resolved) {
    PlannedParam param;
    param.resolved = std::move(from);
    if (param.resolved.spec.role == ParamRole::kLinear) {
      param.parts = SplitByFormat(param.resolved, options.activation);
      for (PlannedPart& part : param.parts) {
        SLUICE_RETURN_IF_ERROR(
            BindPart(param.resolved.spec, device.ops(), options.activation, &plan.records, &part));
      }
    } else {
      param.parts = {PartOf(param.resolved, options.activation)};
    }
    param.shares = FindShared(plan.params, param);
    param.mapped = Map(param.resolved, source, device);
    plan.bytes += param.bytes();
    plan.params.push_back(std::move(param));
  }
  return plan;
}

}  // namespace sluice::weights
