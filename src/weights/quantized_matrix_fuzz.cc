// Any bytes as the tensors of a quantized matrix, with any of the spellings of published
// checkpoints, number formats and shapes that may or may not fit together: they are refused, or all
// of the matrix's rows and scales can be read.
#include <algorithm>
#include <deque>
#include <vector>

#include "base/check.h"
#include "base/fuzz_target.h"
#include "base/str_cat.h"
#include "weights/manifest.h"
#include "weights/scales.h"

namespace sluice::weights {
namespace {

constexpr size_t kTensorsMax = 8;
constexpr int64_t kElementsMax = int64_t{1} << 14;
constexpr std::string_view kEndings[] = {"weight",
                                         "qweight",
                                         "qzeros",
                                         "scales",
                                         "g_idx",
                                         "weight_packed",
                                         "weight_scale",
                                         "weight_zero_point",
                                         "weight_g_idx",
                                         "weight_scale_2",
                                         "weight_global_scale",
                                         "weight_scale_inv",
                                         "input_scale",
                                         "scale"};
constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3,
                            DType::kI8,  DType::kI32, DType::kU8,   DType::kI64};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  bool done() const { return at_ >= text_.size(); }
  uint8_t Next() { return done() ? 0 : static_cast<uint8_t>(text_[at_++]); }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

class Tensors : public files::TensorSource {
 public:
  Tensors(Reader& reader, int64_t rows, int64_t columns) {
    const int64_t dims[] = {rows,        columns,      rows / 8,     columns / 8, columns / 16,
                            columns / 2, columns / 32, columns / 64, 1,           2,
                            0,           reader.Next()};
    while (!reader.done() && tensors_.size() < kTensorsMax) {
      files::FileTensor tensor;
      tensor.name = StrCat("x.", kEndings[reader.Next() % std::size(kEndings)]);
      tensor.dtype = kTypes[reader.Next() % std::size(kTypes)];
      int64_t elements = 1;
      for (int rank = reader.Next() % 4; rank > 0; --rank) {
        tensor.shape.push_back(dims[reader.Next() % std::size(dims)]);
        elements *= tensor.shape.back();
      }
      // As a checked file has them: bytes fit the shape, and no name stands twice.
      if (elements > kElementsMax || Find(tensor.name) != nullptr) continue;
      std::vector<std::byte>& bytes = bytes_.emplace_back();
      bytes.resize(RowBytes(tensor.dtype, static_cast<size_t>(elements)));
      const uint8_t first = reader.Next(), step = reader.Next();
      for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<std::byte>(first + step * (i >> (step & 3)));
      }
      tensor.data = bytes;
      tensors_.push_back(std::move(tensor));
    }
  }
  const std::vector<files::FileTensor>& tensors() const override { return tensors_; }
  const files::FileTensor* Find(std::string_view name) const override {
    for (const files::FileTensor& tensor : tensors_) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }
  void Release(const files::FileTensor&) const override {}

 private:
  std::vector<files::FileTensor> tensors_;
  std::deque<std::vector<std::byte>> bytes_;
};

// All that a plan would read.
void ReadAll(const ResolvedParam& param, int64_t rows, int64_t columns) {
  const DerivedMatrix* derived = param.derived.front().get();
  const files::FileTensor& tensor = *param.tensors.front();
  if (derived != nullptr) {
    const size_t bytes = RowBytes(tensor.dtype, static_cast<size_t>(columns));
    CHECK(derived->Rows(0, rows).size() == bytes * static_cast<size_t>(rows));
    std::vector<int32_t> order = derived->order();
    std::sort(order.begin(), order.end());
    for (size_t i = 0; i < order.size(); ++i) CHECK(order[i] == static_cast<int32_t>(i));
  }
  const ScaleReader reader(tensor, param.scales.front());
  for (int64_t row = 0; row < rows; ++row) CHECK(reader.At(row, columns - 1) > 0.0f);
}

}  // namespace
}  // namespace sluice::weights

void sluice::FuzzInput(std::string_view text) {
  using namespace sluice::weights;
  Reader reader(text);
  const int64_t rows = 1 + reader.Next() % 40, columns = 1 + reader.Next() % 192;
  const bool gguf = reader.Next() % 4 == 0;
  const Tensors source(reader, rows, columns);
  ParamSpec spec;
  spec.name = "x";
  spec.rows = rows;
  spec.columns = columns;
  spec.hugging_face = spec.gguf = {{{"x.weight", rows}}};
  const auto resolved =
      Resolve(spec, source, gguf ? Naming::kGguf : Naming::kHuggingFace, std::nullopt);
  if (!resolved.ok()) {
    CHECK(resolved.status().code() == StatusCode::kBadModel, resolved.status().message());
    return;
  }
  ReadAll(*resolved, rows, columns);
}
