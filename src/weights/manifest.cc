#include "weights/manifest.h"

#include "base/check.h"
#include "base/str_cat.h"
#include "weights/scales.h"

namespace sluice::weights {
namespace {

bool RoleAllows(ParamRole role, DType dtype) {
  const bool plain = dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
  switch (role) {
    case ParamRole::kLinear:
    case ParamRole::kExperts:
      return plain || dtype == DType::kF8E4M3 || IsQuantized(dtype);
    case ParamRole::kEmbedding:
      return plain || IsQuantized(dtype);
    case ParamRole::kNorm:
    case ParamRole::kTaps:
    case ParamRole::kBias:
      return plain;
  }
  return false;
}

std::string_view RoleFormats(ParamRole role) {
  switch (role) {
    case ParamRole::kLinear:
    case ParamRole::kExperts:
      return "F32, F16, BF16, F8_E4M3 or a GGUF block format";
    case ParamRole::kEmbedding:
      return "F32, F16, BF16 or a GGUF block format";
    default:
      return "F32, F16 or BF16";
  }
}

Status CheckTensor(const ParamSpec& spec, const ParamSource& wanted,
                   const files::FileTensor& tensor) {
  std::vector<int64_t> shape = {wanted.tensor_rows()};
  const bool stacked = spec.role == ParamRole::kExperts && wanted.pick.groups > 0;
  if (stacked) shape = {spec.experts, wanted.tensor_rows() / spec.experts};
  if (spec.role == ParamRole::kTaps) shape.push_back(1);
  if (spec.columns > 0) shape.push_back(spec.columns);
  if (tensor.shape != shape) {
    return BadModel(StrCat("tensor \"", tensor.name, "\" has shape ", ShapeText(tensor.shape),
                           " but the model's config asks for ", ShapeText(shape),
                           "; the files do not belong together"));
  }
  if (!RoleAllows(spec.role, tensor.dtype)) {
    return BadModel(StrCat("tensor \"", tensor.name, "\" is stored as ", Name(tensor.dtype),
                           " but this kind of parameter must be ", RoleFormats(spec.role)));
  }
  if (stacked && tensor.dtype == DType::kF8E4M3) {
    return BadModel(StrCat("tensor \"", tensor.name,
                           "\" has all experts of a layer in F8_E4M3, "
                           "which is supported only where each expert has a tensor of its own"));
  }
  return OkStatus();
}

// The first alternative whose tensors are all there, or nullptr.
const SourceList* Choose(const std::vector<SourceList>& alternatives,
                         const files::TensorSource& source) {
  for (const SourceList& list : alternatives) {
    bool complete = true;
    for (const ParamSource& wanted : list) {
      complete &= source.Find(wanted.name) != nullptr || Int4Matrix::IsIn(wanted.name, source);
    }
    if (complete) return &list;
  }
  return nullptr;
}

Status Missing(const ParamSpec& spec, const SourceList& list, const files::TensorSource& source) {
  for (const ParamSource& wanted : list) {
    if (source.Find(wanted.name) != nullptr) continue;
    return BadModel(StrCat("the model's files have no tensor \"", wanted.name, "\", needed for ",
                           spec.name, "; the download may be incomplete"));
  }
  return OkStatus();
}

}  // namespace

Result<ResolvedParam> Resolve(const ParamSpec& spec, const files::TensorSource& source,
                              Naming naming,
                              const std::optional<files::F8Quantization>& quantization) {
  const auto& alternatives = naming == Naming::kGguf ? spec.gguf : spec.hugging_face;
  CHECK(!alternatives.empty(), spec.name, " has no source");
  ResolvedParam resolved;
  resolved.spec = spec;
  resolved.add_one = spec.hugging_face_adds_one && naming == Naming::kHuggingFace;
  const SourceList* list = Choose(alternatives, source);
  if (list == nullptr) return Missing(spec, alternatives.front(), source);

  resolved.sources = *list;
  int64_t rows = 0;
  for (const ParamSource& wanted : *list) {
    const RowPick& pick = wanted.pick;
    const bool product = spec.role == ParamRole::kLinear || spec.role == ParamRole::kExperts;
    CHECK(pick.groups == 0 || (product && wanted.rows == pick.groups * pick.count &&
                               pick.begin >= 0 && pick.begin + pick.count <= pick.group_rows),
          spec.name, ": ", wanted.name);
    const files::FileTensor* tensor = source.Find(wanted.name);
    std::shared_ptr<const Int4Matrix> int4;
    if (tensor == nullptr) {
      SLUICE_ASSIGN_OR_RETURN(
          int4, Int4Matrix::Find(wanted.name, wanted.tensor_rows(), spec.columns, source));
      tensor = &int4->tensor();
    }
    SLUICE_RETURN_IF_ERROR(CheckTensor(spec, wanted, *tensor));
    SourceScales scales;
    if (product && naming == Naming::kHuggingFace && int4 == nullptr) {
      SLUICE_ASSIGN_OR_RETURN(scales, FindScales(*tensor, source, quantization));
    }
    resolved.tensors.push_back(tensor);
    resolved.scales.push_back(scales);
    resolved.int4.push_back(std::move(int4));
    rows += wanted.rows;
  }
  CHECK(rows == spec.rows, spec.name, ": sources have ", rows, " rows, not ", spec.rows);
  return resolved;
}

Result<std::vector<ResolvedParam>> Resolve(
    const std::vector<ParamSpec>& specs, const files::TensorSource& source, Naming naming,
    const std::optional<files::F8Quantization>& quantization) {
  std::vector<ResolvedParam> all;
  for (const ParamSpec& spec : specs) {
    SLUICE_ASSIGN_OR_RETURN(ResolvedParam resolved, Resolve(spec, source, naming, quantization));
    all.push_back(std::move(resolved));
  }
  return all;
}

}  // namespace sluice::weights
