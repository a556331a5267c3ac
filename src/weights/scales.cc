#include "weights/scales.h"

#include <algorithm>
#include <cmath>

#include "base/str_cat.h"
#include "weights/transform.h"

namespace sluice::weights {
namespace {

using ops::WeightScales;

int64_t Blocks(int64_t elements) { return (elements + ops::kScaleBlock - 1) / ops::kScaleBlock; }

Result<WeightScales> CoveredBy(const files::FileTensor& scales, const files::FileTensor& tensor) {
  const int64_t rows = tensor.shape[0], columns = tensor.shape.size() > 1 ? tensor.shape[1] : 1;
  int64_t count = 1;
  for (const int64_t dim : scales.shape) count *= dim;
  using Shape = std::vector<int64_t>;
  const Shape blocks = {Blocks(rows), Blocks(columns)};
  if (count == 1) return WeightScales::kTensor;
  if (scales.shape == Shape{rows} || scales.shape == Shape{rows, 1}) return WeightScales::kRow;
  if (scales.shape == blocks) return WeightScales::kBlock;
  return BadModel(StrCat("tensor \"", scales.name, "\" has shape ", ShapeText(scales.shape),
                         " but the scales of an F8 matrix of shape ", ShapeText(tensor.shape),
                         " must be [1], ", ShapeText({rows}), ", ", ShapeText({rows, 1}), " or ",
                         ShapeText(blocks),
                         " (blocks of 128 by 128); use another version of the "
                         "model"));
}

// The first of these tensors that is there, or nullptr.
const files::FileTensor* FindOne(const files::TensorSource& source, const std::string& stem,
                                 std::initializer_list<std::string_view> endings) {
  for (const std::string_view ending : endings) {
    if (const auto* found = source.Find(stem + std::string(ending))) return found;
  }
  return nullptr;
}

// Activations are not rounded by the checkpoint's scales, but they must be what they say.
Result<SourceScales> FindIntegerScales(const files::FileTensor& tensor,
                                       const files::TensorSource& source) {
  SourceScales scales;
  scales.weight = source.Find(tensor.name + "_scale");
  if (scales.weight == nullptr) {
    return BadModel(StrCat("the model's files have no tensor \"", tensor.name, "_scale\", but \"",
                           tensor.name,
                           "\" is I8, which needs scales; the download may be incomplete"));
  }
  SLUICE_RETURN_IF_ERROR(CheckScales(*scales.weight));
  int64_t count = 1;
  for (const int64_t dim : scales.weight->shape) count *= dim;
  const int64_t rows = tensor.shape[0];
  const std::vector<int64_t>& shape = scales.weight->shape;
  const bool by_row = shape == std::vector<int64_t>{rows} || shape == std::vector<int64_t>{rows, 1};
  if (count != 1 && !by_row) {
    return BadModel(StrCat("tensor \"", scales.weight->name, "\" has shape ", ShapeText(shape),
                           " but the scales of an I8 matrix of shape ", ShapeText(tensor.shape),
                           " must be [1], ", ShapeText({rows}), " or ", ShapeText({rows, 1}),
                           "; use another version of the model"));
  }
  scales.covers = count == 1 ? WeightScales::kTensor : WeightScales::kRow;
  const files::FileTensor* zeros = source.Find(tensor.name + "_zero_point");
  if (zeros != nullptr && std::any_of(zeros->data.begin(), zeros->data.end(),
                                      [](std::byte b) { return b != std::byte{0}; })) {
    return BadModel(
        StrCat("tensor \"", zeros->name,
               "\" has zero points other than 0, but only "
               "symmetric I8 matrices are supported; use another version of the model"));
  }
  const files::FileTensor* input = source.Find(StemOf(tensor.name) + "input_scale");
  if (input != nullptr) {
    SLUICE_RETURN_IF_ERROR(CheckOneNumber(*input, "a static scale of activations"));
  }
  return scales;
}

Result<const files::FileTensor*> FindInputScale(const files::FileTensor& tensor,
                                                const files::TensorSource& source) {
  const std::string stem = StemOf(tensor.name);
  const files::FileTensor* scale = FindOne(source, stem, {"input_scale", "activation_scale"});
  if (scale == nullptr) {
    return BadModel(StrCat("the model's files have no tensor \"", stem,
                           "input_scale\", which \"quantization_config\" with static activations "
                           "asks for; the download may be incomplete"));
  }
  SLUICE_RETURN_IF_ERROR(CheckOneNumber(*scale, "a static scale of activations"));
  return scale;
}

bool WholeBlocks(const ParamSource& source) {
  const RowPick& pick = source.pick;
  return pick.groups == 0 ||
         (pick.group_rows % ops::kScaleBlock == 0 && pick.begin % ops::kScaleBlock == 0 &&
          pick.count % ops::kScaleBlock == 0);
}

}  // namespace

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += StrCat(i == 0 ? "" : ", ", shape[i]);
  return text + "]";
}

Status CheckScales(const files::FileTensor& scales) {
  if (scales.dtype != DType::kF32 && scales.dtype != DType::kF16 && scales.dtype != DType::kBF16) {
    return BadModel(StrCat("tensor \"", scales.name, "\" is stored as ", Name(scales.dtype),
                           " but scales must be F32, F16 or BF16; use another version of the "
                           "model"));
  }
  const std::vector<float> values = ToF32(scales);
  const auto bad = std::find_if(values.begin(), values.end(),
                                [](float v) { return !std::isfinite(v) || v <= 0.0f; });
  if (bad == values.end()) return OkStatus();
  return BadModel(StrCat("tensor \"", scales.name, "\" has ", *bad, " as its number ",
                         bad - values.begin(),
                         ", but scales must be finite and above 0; the file is damaged or was "
                         "quantized wrongly, so fetch it anew"));
}

Status CheckOneNumber(const files::FileTensor& scale, std::string_view what) {
  SLUICE_RETURN_IF_ERROR(CheckScales(scale));
  if (scale.data.size() == static_cast<size_t>(Info(scale.dtype).bytes)) return OkStatus();
  return BadModel(StrCat("tensor \"", scale.name, "\" has shape ", ShapeText(scale.shape), " but ",
                         what, " is one number; use another version of the model"));
}

Result<SourceScales> FindScales(const files::FileTensor& tensor, const files::TensorSource& source,
                                const std::optional<files::F8Quantization>& quantization) {
  if (tensor.dtype == DType::kI8) return FindIntegerScales(tensor, source);
  const files::FileTensor* scale = FindOne(source, tensor.name, {"_scale", "_scale_inv"});
  if (tensor.dtype != DType::kF8E4M3) {
    if (scale == nullptr) return SourceScales();
    return BadModel(
        StrCat("tensor \"", scale->name, "\" gives scales for \"", tensor.name,
               "\", which is stored as ", Name(tensor.dtype),
               ", but only F8_E4M3 and I8 matrices have scales; use another version of the "
               "model"));
  }
  if (scale == nullptr) {
    if (!quantization) return SourceScales();
    return BadModel(StrCat("the model's files have no tensor \"", tensor.name, "_scale\" or \"",
                           tensor.name, "_scale_inv\", but \"", tensor.name,
                           "\" is F8_E4M3 of the method ", quantization->method,
                           ", which needs scales; the download may be incomplete"));
  }
  SLUICE_RETURN_IF_ERROR(CheckScales(*scale));
  SourceScales scales;
  scales.weight = scale;
  SLUICE_ASSIGN_OR_RETURN(scales.covers, CoveredBy(*scale, tensor));
  if (quantization && quantization->inputs == files::F8Inputs::kStatic) {
    SLUICE_ASSIGN_OR_RETURN(scales.input, FindInputScale(tensor, source));
  }
  return scales;
}

Result<SourceScales> FindGgufScales(const files::FileTensor& tensor,
                                    const files::TensorSource& source) {
  SourceScales scales;
  if (tensor.dtype == DType::kI8) {
    return BadModel(StrCat("tensor \"", tensor.name,
                           "\" is stored as I8, which is no number format of a GGUF file's "
                           "matrices; use another version of the model"));
  }
  if (tensor.dtype != DType::kNVFP4) return scales;
  scales.weight = source.Find(StemOf(tensor.name) + "scale");
  if (scales.weight == nullptr) return scales;
  SLUICE_RETURN_IF_ERROR(CheckOneNumber(*scales.weight, "the scale of a matrix in NVFP4"));
  scales.covers = WeightScales::kTensor;
  return scales;
}

std::optional<WeightScales> MergedScales(const ResolvedParam& param, size_t first, size_t count) {
  WeightScales merged = param.scales[first].covers;
  for (size_t i = first; i < first + count; ++i) {
    const WeightScales covers = param.scales[i].covers;
    const bool blocks = covers == WeightScales::kBlock;
    const bool ends_within = i + 1 < first + count && param.sources[i].rows % ops::kScaleBlock != 0;
    if (blocks != (merged == WeightScales::kBlock)) return std::nullopt;
    if (blocks && (ends_within || !WholeBlocks(param.sources[i]))) return std::nullopt;
    const bool one_for_all = blocks || (covers == WeightScales::kNone && merged == covers);
    if (i > first && !one_for_all) merged = WeightScales::kRow;
  }
  return merged;
}

ScaleReader::ScaleReader(const files::FileTensor& tensor, const SourceScales& scales)
    : covers_(scales.covers), values_{1.0f} {
  if (scales.weight != nullptr) values_ = ToF32(*scales.weight);
  if (scales.divides) {
    for (float& value : values_) value = 1.0f / value;
  }
  if (covers_ == WeightScales::kBlock) blocks_ = Blocks(tensor.shape[1]);
}

float ScaleReader::At(int64_t row, int64_t column) const {
  switch (covers_) {
    case WeightScales::kRow:
      return values_[static_cast<size_t>(row)];
    case WeightScales::kBlock:
      return values_[static_cast<size_t>(row / ops::kScaleBlock * blocks_ +
                                         column / ops::kScaleBlock)];
    default:
      return values_.front();
  }
}

}  // namespace sluice::weights
