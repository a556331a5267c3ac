#include "weights/plan.h"

#include <algorithm>

#include "base/str_cat.h"
#include "weights/scales.h"

namespace sluice::weights {
namespace {

// Rows that are read in place: every number format's own alignment, and GGUF's least.
constexpr uintptr_t kMappedAlignment = 8;

// How source i of a parameter sorts its columns; empty where it does not.
const std::vector<int32_t>& OrderOf(const ResolvedParam& param, size_t i) {
  static const std::vector<int32_t> kNone;
  return param.derived[i] != nullptr ? param.derived[i]->order() : kNone;
}

// Consecutive sources of one number format and one order of columns. An F8 matrix whose scales can
// follow its rows no way is widened, alone or beside others.
std::vector<PlannedPart> SplitByFormat(const ResolvedParam& param) {
  std::vector<PlannedPart> parts;
  int64_t row = 0;
  for (size_t i = 0; i < param.tensors.size(); ++i) {
    const bool scalable = MergedScales(param, i, 1).has_value();
    const DType dtype = scalable ? param.tensors[i]->dtype : DType::kBF16;
    const bool joins =
        !parts.empty() && parts.back().dtype == dtype &&
        OrderOf(param, parts.back().first) == OrderOf(param, i) &&
        (!scalable || MergedScales(param, parts.back().first, parts.back().count + 1).has_value());
    if (!joins) parts.push_back({.first = i, .dtype = dtype, .row_begin = row});
    parts.back().count += 1;
    parts.back().rows += param.sources[i].rows;
    row += param.sources[i].rows;
  }
  return parts;
}

ops::Linear::Desc DescOf(const ParamSpec& spec, const PlannedPart& part, DType activation) {
  ops::Linear::Desc desc;
  desc.weight = part.dtype;
  desc.activation = activation;
  desc.n = part.rows;
  desc.k = spec.columns;
  desc.bias = spec.bias;
  desc.residual = spec.residual;
  // A product with a residual is added to the residual stream.
  const bool f32_sums = ops::ResidualDType(activation) != activation;
  desc.f32_out = spec.f32_out || ((spec.residual || spec.begins_residual) && f32_sums);
  return desc;
}

ops::ActivationScales ScalesOfX(DType weight,
                                const std::optional<files::F8Quantization>& quantization) {
  if (!quantization || weight != DType::kF8E4M3) return ops::ActivationScales::kNone;
  switch (quantization->inputs) {
    case files::F8Inputs::kAsTheyAre:
      return ops::ActivationScales::kNone;
    case files::F8Inputs::kStatic:
      return ops::ActivationScales::kTensor;
    case files::F8Inputs::kToken:
      return ops::ActivationScales::kRow;
    case files::F8Inputs::kBlock:
      return ops::ActivationScales::kBlock;
  }
  return ops::ActivationScales::kNone;
}

ops::Linear::Desc& ProductOf(ops::Linear::Desc& desc) { return desc; }
ops::Linear::Desc& ProductOf(ops::GroupedLinear::Desc& desc) { return desc.each; }

// Of matrices with scales: activations become F8 by `x_scales`, as the checkpoint says, where the
// device has fast products for it, else they stay as they are. kUnimplemented where it has no
// products with scales at all.
template <class Op>
Result<ops::Bound<Op>> BindScaled(const ops::OpTable& table, ops::ActivationScales x_scales,
                                  typename Op::Desc desc, std::vector<ops::BindRecord>* records) {
  if (x_scales != ops::ActivationScales::kNone) {
    std::vector<ops::BindRecord> tried;
    ProductOf(desc).x_scales = x_scales;
    auto bound = ops::Bind<Op>(table, desc, &tried);
    if (bound.ok() && tried.front().slow.empty()) {
      records->push_back(std::move(tried.front()));
      return bound;
    }
    ProductOf(desc).x_scales = ops::ActivationScales::kNone;
  }
  return ops::Bind<Op>(table, desc, records);
}

// That a device whose kernels know no scales reads twice the bytes is told when it loads.
void TellWidened(const ops::Linear::Desc& scaled, ops::BindRecord* record) {
  record->declined.push_back(StrCat("no implementation takes ", scaled.ToString()));
  if (record->slow.empty()) record->slow = "weights with scales were widened to BF16";
}

void SetPacking(const ops::OpTable& table, std::string_view implementation,
                const ops::Linear::Desc& packed, PlannedPart* part) {
  part->packed = packed;
  part->packing = &ops::PackingOf(table, implementation);
  part->row_group = part->packing->row_group;
  part->bytes = part->packing->packed_bytes(packed);
}

// Chooses the kernel of a part, and with it the layout.
Status BindPart(const ResolvedParam& param, const ops::OpTable& table, const PlanOptions& options,
                std::vector<ops::BindRecord>* records, PlannedPart* part) {
  ops::Linear::Desc desc = DescOf(param.spec, *part, options.activation);
  desc.ordered = !OrderOf(param, part->first).empty();
  desc.weight_scales =
      MergedScales(param, part->first, part->count).value_or(ops::WeightScales::kNone);
  if (desc.weight_scales != ops::WeightScales::kNone) {
    const ops::ActivationScales of_x = ScalesOfX(part->dtype, options.quantization);
    auto bound = BindScaled<ops::Linear>(table, of_x, desc, records);
    if (bound.ok()) {
      part->linear = *bound;
    } else {
      const ops::Linear::Desc scaled = desc;
      desc.weight_scales = ops::WeightScales::kNone;
      desc.weight = part->dtype = DType::kBF16;
      SLUICE_ASSIGN_OR_RETURN(part->linear, ops::Bind<ops::Linear>(table, desc, records));
      TellWidened(scaled, &records->back());
    }
  } else {
    SLUICE_ASSIGN_OR_RETURN(part->linear, ops::Bind<ops::Linear>(table, desc, records));
  }
  SetPacking(table, part->linear.name(), part->linear.desc(), part);
  return OkStatus();
}

// The sources of one expert by runs of one number format, in which all experts have them: the
// sources of a run stand together behind those of the runs before it, expert by expert.
Result<std::vector<PlannedPart>> SplitExperts(ResolvedParam* param) {
  const size_t experts = static_cast<size_t>(param->spec.experts);
  const size_t pieces = param->sources.size() / experts;
  for (size_t i = 0; i < param->sources.size(); ++i) {
    const files::FileTensor& first = *param->tensors[i % pieces];
    if (!OrderOf(*param, i).empty()) {
      return BadModel(StrCat("tensor \"", param->tensors[i]->name,
                             "\" of an expert has columns in an order of their own (act order), "
                             "which is not supported for experts; use a version that was quantized "
                             "without \"desc_act\""));
    }
    if (param->tensors[i]->dtype == first.dtype) continue;
    return BadModel(StrCat("tensor \"", param->tensors[i]->name, "\" is stored as ",
                           Name(param->tensors[i]->dtype), " but that of the first expert as ",
                           Name(first.dtype), "; the experts of a layer must be stored alike"));
  }
  std::vector<PlannedPart> parts;
  int64_t row_begin = 0;  // among the outputs of one expert
  ResolvedParam ordered = *param;
  ordered.sources.clear();
  ordered.tensors.clear();
  ordered.scales.clear();
  ordered.derived.clear();
  for (size_t begin = 0; begin < pieces;) {
    size_t end = begin + 1;
    const DType dtype = param->tensors[begin]->dtype;
    while (end < pieces && param->tensors[end]->dtype == dtype) ++end;
    PlannedPart part{.first = ordered.sources.size(), .dtype = dtype, .row_begin = row_begin};
    for (size_t e = 0; e < experts; ++e) {
      for (size_t i = e * pieces + begin; i < e * pieces + end; ++i) {
        ordered.sources.push_back(param->sources[i]);
        ordered.tensors.push_back(param->tensors[i]);
        ordered.scales.push_back(param->scales[i]);
        ordered.derived.push_back(param->derived[i]);
        part.rows += param->sources[i].rows;
        part.count += 1;
      }
    }
    row_begin += part.rows / param->spec.experts;
    parts.push_back(part);
    begin = end;
  }
  *param = std::move(ordered);
  return parts;
}

// As BindPart. A static scale of activations is each expert's own, and their products have one:
// such experts meet activations as they are.
Status BindExperts(const ResolvedParam& param, const ops::OpTable& table,
                   const PlanOptions& options, std::vector<ops::BindRecord>* records,
                   PlannedPart* part) {
  const ParamSpec& spec = param.spec;
  ops::GroupedLinear::Desc desc;
  desc.each = DescOf(spec, *part, options.activation);
  desc.each.n = part->rows / spec.experts;
  desc.experts = spec.experts;
  desc.top_k = std::max(spec.experts_per_token, 1);
  desc.by_columns = spec.by_columns;
  desc.x_step = spec.x_step;
  desc.out_step = spec.out_step;
  std::optional<ops::Linear::Desc> widened;
  const auto scales = MergedScales(param, part->first, part->count);
  if (part->dtype == DType::kF8E4M3 || scales != ops::WeightScales::kNone) {
    if (scales) {
      desc.each.weight_scales = *scales;
      const ops::ActivationScales of_x = ScalesOfX(part->dtype, options.quantization);
      const bool is_static = of_x == ops::ActivationScales::kTensor;
      auto bound = BindScaled<ops::GroupedLinear>(
          table, is_static ? ops::ActivationScales::kNone : of_x, desc, records);
      if (bound.ok()) part->grouped = *bound;
    }
    if (!part->grouped.bound()) widened = desc.each;
  }
  if (widened) {
    desc.each.weight = part->dtype = DType::kBF16;
    desc.each.weight_scales = ops::WeightScales::kNone;
  }
  if (!part->grouped.bound()) {
    SLUICE_ASSIGN_OR_RETURN(part->grouped, ops::Bind<ops::GroupedLinear>(table, desc, records));
  }
  if (widened) TellWidened(*widened, &records->back());
  SetPacking(table, part->grouped.name(), part->grouped.desc().Stacked(), part);
  const auto experts = static_cast<size_t>(spec.experts);
  if (spec.slot_experts.empty() || part->BytesOf({0, desc.each.n}) * experts == part->bytes) {
    return OkStatus();
  }
  return Status(StatusCode::kUnimplemented,
                StrCat("experts in ", Name(part->dtype), " as ", part->grouped.name(),
                       " packs them have no bytes of their own each, so they cannot move; leave ",
                       "--expert-ranks out"));
}

// Behind the parts of a kLinear those of their scales, then those of their orders.
void AddScaleParts(std::vector<PlannedPart>* parts) {
  const size_t count = parts->size();
  for (size_t i = 0; i < count; ++i) {
    const PlannedPart& of = (*parts)[i];
    const ops::Linear::Desc& desc = of.packed;
    if (desc.weight_scales == ops::WeightScales::kNone) continue;
    size_t numbers = desc.x_scales == ops::ActivationScales::kTensor ? 1 : 0;
    int64_t scales = 1;
    for (const int64_t dim : ops::ScaleShape(desc)) scales *= dim;
    numbers += static_cast<size_t>(scales);
    parts->push_back({.first = of.first,
                      .count = of.count,
                      .rows = 1,
                      .scales_of = i,
                      .bytes = numbers * sizeof(float)});
  }
  for (size_t i = 0; i < count; ++i) {
    const PlannedPart& of = (*parts)[i];
    if (!of.packed.ordered) continue;
    parts->push_back({.first = of.first,
                      .count = of.count,
                      .rows = 1,
                      .order_of = i,
                      .bytes = static_cast<size_t>(of.packed.k) * sizeof(int32_t)});
  }
}

Status PlanLinear(const ops::OpTable& table, const PlanOptions& options,
                  std::vector<ops::BindRecord>* records, PlannedParam* param) {
  param->parts = SplitByFormat(param->resolved);
  for (PlannedPart& part : param->parts) {
    SLUICE_RETURN_IF_ERROR(BindPart(param->resolved, table, options, records, &part));
  }
  AddScaleParts(&param->parts);
  return OkStatus();
}

Status PlanExperts(const ops::OpTable& table, const PlanOptions& options,
                   std::vector<ops::BindRecord>* records, PlannedParam* param) {
  SLUICE_ASSIGN_OR_RETURN(param->parts, SplitExperts(&param->resolved));
  for (PlannedPart& part : param->parts) {
    SLUICE_RETURN_IF_ERROR(BindExperts(param->resolved, table, options, records, &part));
  }
  AddScaleParts(&param->parts);
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
  ops::Linear::Desc desc = packed;
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
                          Resolve(specs, source, options.naming, options.quantization));
  WeightPlan plan{options, &source, {}, {}, 0};
  for (ResolvedParam& from : resolved) {
    PlannedParam param;
    param.resolved = std::move(from);
    if (param.resolved.spec.role == ParamRole::kLinear) {
      SLUICE_RETURN_IF_ERROR(PlanLinear(device.ops(), options, &plan.records, &param));
    } else if (param.resolved.spec.role == ParamRole::kExperts) {
      SLUICE_RETURN_IF_ERROR(PlanExperts(device.ops(), options, &plan.records, &param));
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
