#include "weights/manifest.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "base/str_cat.h"
#include "weights/int4.h"
#include "weights/mxfp4.h"
#include "weights/nvfp4.h"
#include "weights/scales.h"
#include "weights/transposed.h"

namespace sluice::weights {
namespace {

bool RoleAllows(ParamRole role, DType dtype) {
  const bool plain = dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
  switch (role) {
    case ParamRole::kLinear:
    case ParamRole::kExperts:
      return plain || IsCode(dtype) || IsQuantized(dtype);
    case ParamRole::kEmbedding:
      return plain || IsQuantized(dtype);
    case ParamRole::kNorm:
    case ParamRole::kTaps:
    case ParamRole::kTable:
    case ParamRole::kBias:
      return plain;
  }
  return false;
}

std::string_view RoleFormats(ParamRole role) {
  switch (role) {
    case ParamRole::kLinear:
    case ParamRole::kExperts:
      return "F32, F16, BF16, F8_E4M3, I8 or a GGUF block format";
    case ParamRole::kEmbedding:
      return "F32, F16, BF16 or a GGUF block format";
    default:
      return "F32, F16 or BF16";
  }
}

Status CheckTensor(const ParamSpec& spec, const ParamSource& wanted,
                   const files::FileTensor& tensor, Naming naming) {
  std::vector<int64_t> shape = {wanted.tensor_rows()};
  const bool stacked = spec.experts > 0 && wanted.pick.groups > 0;
  if (stacked) shape = {spec.experts, wanted.tensor_rows() / spec.experts};
  if (spec.gguf_stacked && naming == Naming::kGguf)
    shape = {wanted.pick.groups, wanted.pick.group_rows};
  if (spec.role == ParamRole::kTaps && naming == Naming::kHuggingFace) shape.push_back(1);
  if (spec.columns > 0) shape.push_back(spec.columns);
  // Those of heads lie in one matrix.
  const std::vector<int64_t> flat = {wanted.tensor_rows(), spec.columns};
  // A vector may lie as a matrix of one row, and a table of one row with any number of ones before
  // its columns.
  const std::vector<int64_t> row = {1, wanted.tensor_rows()};
  const bool divided = spec.gguf_divided && naming == Naming::kGguf && tensor.shape.size() == 2 &&
                       tensor.shape[1] > 0 && tensor.shape[0] <= shape.front() &&
                       tensor.shape[0] * tensor.shape[1] == shape.front();
  const bool one_row = spec.role == ParamRole::kEmbedding && spec.rows == 1 &&
                       !tensor.shape.empty() && tensor.shape.back() == spec.columns &&
                       std::all_of(tensor.shape.begin(), tensor.shape.end() - 1,
                                   [](int64_t size) { return size == 1; });
  const bool fits = tensor.shape == shape || (spec.by_columns && tensor.shape == flat) ||
                    (spec.columns == 0 && (tensor.shape == row || divided)) || one_row;
  if (!fits) {
    return BadModel(StrCat("tensor \"", tensor.name, "\" has shape ", ShapeText(tensor.shape),
                           " but the model's config asks for ", ShapeText(shape),
                           "; the files do not belong together"));
  }
  if (!RoleAllows(spec.role, tensor.dtype)) {
    return BadModel(StrCat("tensor \"", tensor.name, "\" is stored as ", Name(tensor.dtype),
                           " but this kind of parameter must be ", RoleFormats(spec.role)));
  }
  if (stacked && !spec.by_columns && IsCode(tensor.dtype)) {
    return BadModel(StrCat("tensor \"", tensor.name, "\" has all experts of a layer in ",
                           Name(tensor.dtype),
                           ", which is supported only where each expert has a tensor of its own"));
  }
  return OkStatus();
}

bool IsIn(const ParamSource& wanted, const files::TensorSource& source) {
  return source.Find(wanted.name) != nullptr || Int4Matrix::IsIn(wanted.name, source) ||
         Mxfp4Matrix::IsIn(wanted.name, source) || Nvfp4Matrix::IsIn(wanted.name, source);
}

bool IsComplete(const SourceList& list, const files::TensorSource& source) {
  return std::all_of(list.begin(), list.end(),
                     [&](const ParamSource& wanted) { return IsIn(wanted, source); });
}

const std::vector<SourceList>& AlternativesOf(const ParamSpec& spec, Naming naming) {
  return naming == Naming::kGguf ? spec.gguf : spec.hugging_face;
}

// The first alternative whose tensors are all there, or nullptr.
const SourceList* Choose(const std::vector<SourceList>& alternatives,
                         const files::TensorSource& source) {
  for (const SourceList& list : alternatives) {
    if (IsComplete(list, source)) return &list;
  }
  return nullptr;
}

// Which spelling a file has, where one parameter cannot tell because it is missing: that of most of
// the others, as far as they have as many.
size_t SpellingOf(std::span<const ParamSpec> specs, size_t spellings,
                  const files::TensorSource& source, Naming naming) {
  std::vector<int> votes(spellings);
  for (const ParamSpec& spec : specs) {
    const auto& alternatives = AlternativesOf(spec, naming);
    if (alternatives.size() != spellings) continue;
    for (size_t i = 0; i < spellings; ++i) votes[i] += IsComplete(alternatives[i], source);
  }
  return static_cast<size_t>(std::max_element(votes.begin(), votes.end()) - votes.begin());
}

Status Missing(const ParamSpec& spec, const SourceList& list, const files::TensorSource& source) {
  for (const ParamSource& wanted : list) {
    if (IsIn(wanted, source)) continue;
    return BadModel(StrCat("the model's files have no tensor \"", wanted.name, "\", needed for ",
                           spec.name, "; the download may be incomplete"));
  }
  return OkStatus();
}

// The matrix of a source that no tensor holds in rows; null where one does.
Result<std::shared_ptr<const DerivedMatrix>> FindDerived(
    const ParamSpec& spec, const ParamSource& wanted, const files::TensorSource& source,
    const std::optional<files::F8Quantization>& quantization) {
  std::shared_ptr<const DerivedMatrix> derived;
  if (Nvfp4Matrix::IsIn(wanted.name, source)) {
    if (wanted.transposed.groups > 0) {
      return BadModel(StrCat("tensor \"", wanted.name,
                             "\" is in NVFP4, but it is multiplied by columns, for which it must "
                             "be F32, F16, BF16 or F8_E4M3; use another version of the model"));
    }
    SLUICE_ASSIGN_OR_RETURN(
        derived, Nvfp4Matrix::Find(wanted.name, wanted.tensor_rows(), spec.columns, source));
    return derived;
  }
  const files::FileTensor* tensor = source.Find(wanted.name);
  if (tensor != nullptr) {
    if (wanted.transposed.groups > 0) {
      SLUICE_ASSIGN_OR_RETURN(const SourceScales scales, FindScales(*tensor, source, quantization));
      SLUICE_ASSIGN_OR_RETURN(derived, TransposedMatrix::Make(*tensor, wanted.transposed, scales));
    }
    return derived;
  }
  if (Mxfp4Matrix::IsIn(wanted.name, source)) {
    const int64_t experts = std::max(spec.experts, 1);
    SLUICE_ASSIGN_OR_RETURN(derived,
                            Mxfp4Matrix::Find(wanted.name, experts, wanted.tensor_rows() / experts,
                                              spec.columns, source));
    return derived;
  }
  SLUICE_ASSIGN_OR_RETURN(
      derived, Int4Matrix::Find(wanted.name, wanted.tensor_rows(), spec.columns, source));
  return derived;
}

// The sources of each slot's expert in the place of those of all experts.
void PutInSlots(ResolvedParam* resolved) {
  ParamSpec& spec = resolved->spec;
  const ResolvedParam stored = *resolved;
  const size_t pieces = stored.sources.size() / static_cast<size_t>(spec.experts);
  resolved->sources.clear();
  resolved->tensors.clear();
  resolved->scales.clear();
  resolved->derived.clear();
  for (const int32_t expert : spec.slot_experts) {
    const size_t begin = static_cast<size_t>(expert) * pieces;
    for (size_t i = begin; i < begin + pieces; ++i) {
      resolved->sources.push_back(stored.sources[i]);
      resolved->tensors.push_back(stored.tensors[i]);
      resolved->scales.push_back(stored.scales[i]);
      resolved->derived.push_back(stored.derived[i]);
    }
  }
  const auto slots = static_cast<int>(spec.slot_experts.size());
  spec.rows = spec.rows / spec.experts * slots;
  spec.stored_experts = std::exchange(spec.experts, slots);
}

// One of `specs`.
Result<ResolvedParam> ResolveOne(const ParamSpec& spec, std::span<const ParamSpec> specs,
                                 const files::TensorSource& source, Naming naming,
                                 const std::optional<files::F8Quantization>& quantization) {
  const auto& alternatives = AlternativesOf(spec, naming);
  CHECK(!alternatives.empty(), spec.name, " has no source");
  ResolvedParam resolved;
  resolved.spec = spec;
  resolved.add_one = spec.hugging_face_adds_one && naming == Naming::kHuggingFace;
  resolved.negated_log = spec.hugging_face_log && naming == Naming::kHuggingFace;
  const SourceList* list = Choose(alternatives, source);
  if (list == nullptr) {
    const size_t spelling = SpellingOf(specs, alternatives.size(), source, naming);
    return Missing(spec, alternatives[spelling], source);
  }

  resolved.sources = *list;
  int64_t rows = 0;
  const ParamSource* before = nullptr;
  for (const ParamSource& wanted : *list) {
    const RowPick& pick = wanted.pick;
    const bool product = spec.role == ParamRole::kLinear || spec.role == ParamRole::kExperts;
    CHECK(pick.groups == 0 ||
              ((product || spec.experts > 0 || spec.columns == 0) && wanted.rows == pick.rows() &&
               pick.begin >= 0 && pick.begin + pick.count <= pick.group_rows &&
               pick.first + pick.only <= pick.groups),
          spec.name, ": ", wanted.name);
    std::shared_ptr<const DerivedMatrix> derived;
    if (before != nullptr && before->name == wanted.name) {
      derived = resolved.derived.back();  // other rows of the same
    } else {
      SLUICE_ASSIGN_OR_RETURN(derived, FindDerived(spec, wanted, source, quantization));
    }
    const files::FileTensor* tensor = derived ? &derived->tensor() : source.Find(wanted.name);
    SLUICE_RETURN_IF_ERROR(CheckTensor(spec, wanted, *tensor, naming));
    SourceScales scales;
    if (derived != nullptr) {
      scales = derived->scales();
    } else if (product && naming == Naming::kHuggingFace) {
      SLUICE_ASSIGN_OR_RETURN(scales, FindScales(*tensor, source, quantization));
    } else if (product) {
      SLUICE_ASSIGN_OR_RETURN(scales, FindGgufScales(*tensor, source));
    }
    resolved.tensors.push_back(tensor);
    resolved.scales.push_back(scales);
    resolved.derived.push_back(std::move(derived));
    rows += wanted.rows;
    before = &wanted;
  }
  CHECK(rows == spec.rows, spec.name, ": sources have ", rows, " rows, not ", spec.rows);
  if (!spec.slot_experts.empty()) PutInSlots(&resolved);
  return resolved;
}

}  // namespace

Result<ResolvedParam> Resolve(const ParamSpec& spec, const files::TensorSource& source,
                              Naming naming,
                              const std::optional<files::F8Quantization>& quantization) {
  return ResolveOne(spec, {&spec, 1}, source, naming, quantization);
}

ParamSpec Unresolved(ParamSpec spec) {
  if (spec.stored_experts == 0) return spec;
  spec.rows = spec.rows / spec.experts * spec.stored_experts;
  spec.experts = std::exchange(spec.stored_experts, 0);
  return spec;
}

Result<std::vector<ResolvedParam>> Resolve(
    const std::vector<ParamSpec>& specs, const files::TensorSource& source, Naming naming,
    const std::optional<files::F8Quantization>& quantization) {
  std::vector<ResolvedParam> all;
  for (const ParamSpec& spec : specs) {
    SLUICE_ASSIGN_OR_RETURN(ResolvedParam resolved,
                            ResolveOne(spec, specs, source, naming, quantization));
    all.push_back(std::move(resolved));
  }
  return all;
}

}  // namespace sluice::weights
