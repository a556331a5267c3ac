#include "weights/int4.h"

#include <cmath>
#include <cstring>
#include <string>

#include "base/str_cat.h"
#include "weights/scales.h"
#include "weights/transform.h"

namespace sluice::weights {
namespace {

constexpr int64_t kBlock = 32;  // of Q4_1
constexpr size_t kBlockBytes = 2 * sizeof(uint16_t) + kBlock / 2;
constexpr int64_t kCodes = 8;  // in an I32
constexpr int kMiddle = 8;     // the zero point of codes without one
// AWQ interleaves the eight codes of an I32: that of row i begins at this bit.
constexpr int kAwqShift[kCodes] = {0, 16, 4, 20, 8, 24, 12, 28};

uint32_t WordAt(const files::FileTensor& tensor, int64_t index) {
  uint32_t word;
  std::memcpy(&word, tensor.data.data() + static_cast<size_t>(index) * sizeof word, sizeof word);
  return word;
}

}  // namespace

bool Int4Matrix::IsIn(std::string_view name, const files::TensorSource& source) {
  const std::string stem = StemOf(name);
  return source.Find(stem + "qweight") != nullptr || source.Find(stem + "weight_packed") != nullptr;
}

Result<std::shared_ptr<const Int4Matrix>> Int4Matrix::Find(std::string_view name, int64_t rows,
                                                           int64_t columns,
                                                           const files::TensorSource& source) {
  if (!IsIn(name, source)) return std::shared_ptr<const Int4Matrix>();
  const std::string stem = StemOf(name);
  auto matrix = std::make_shared<Int4Matrix>();
  matrix->tensor_ = {std::string(name), DType::kQ4_1, {rows, columns}, {}};
  matrix->rows_ = rows;
  matrix->columns_ = columns;
  matrix->codes_ = source.Find(stem + "qweight");
  const bool compressed = matrix->codes_ == nullptr;
  if (compressed) {
    matrix->format_ = Format::kCompressed;
    matrix->codes_ = source.Find(stem + "weight_packed");
    matrix->zeros_ = source.Find(stem + "weight_zero_point");
  } else {
    const bool awq = matrix->codes_->shape == std::vector<int64_t>{columns, rows / kCodes};
    matrix->format_ = awq ? Format::kAwq : Format::kGptq;
    SLUICE_ASSIGN_OR_RETURN(matrix->zeros_,
                            FindNeeded(source, stem + "qzeros", matrix->codes_->name, "4 bits"));
  }
  SLUICE_ASSIGN_OR_RETURN(matrix->scales_,
                          FindNeeded(source, stem + (compressed ? "weight_scale" : "scales"),
                                     matrix->codes_->name, "4 bits"));
  SLUICE_RETURN_IF_ERROR(CheckScales(*matrix->scales_));
  if (matrix->scales_->shape.size() == 2) {
    matrix->groups_ = matrix->scales_->shape[compressed ? 1 : 0];
  }
  SLUICE_RETURN_IF_ERROR(matrix->CheckShapes());
  for (const char* order : {"g_idx", "weight_g_idx"}) {
    const files::FileTensor* group_of_column = source.Find(stem + order);
    if (group_of_column != nullptr) {
      SLUICE_RETURN_IF_ERROR(matrix->ReadOrder(*group_of_column));
    }
  }
  matrix->scale_values_ = ToF32(*matrix->scales_);
  return std::shared_ptr<const Int4Matrix>(std::move(matrix));
}

Status Int4Matrix::CheckShapes() const {
  const bool compressed = format_ == Format::kCompressed;
  if (rows_ % kCodes != 0 || groups_ < 1 || columns_ % groups_ != 0 ||
      columns_ / groups_ % kBlock != 0) {
    return BadModel(StrCat("tensor \"", scales_->name, "\" has shape ", ShapeText(scales_->shape),
                           " for a matrix of shape ", ShapeText(tensor_.shape),
                           " in 4 bits; a multiple of 8 rows and scales of groups of a multiple of "
                           "32 columns are supported, else use another version of the model"));
  }
  using Shape = std::vector<int64_t>;
  const Shape scales = compressed ? Shape{rows_, groups_} : Shape{groups_, rows_};
  if (scales_->shape != scales) {
    return BadModel(StrCat("tensor \"", scales_->name, "\" has shape ", ShapeText(scales_->shape),
                           " but ", groups_, " groups of ", rows_, " rows need ", ShapeText(scales),
                           "; the files do not belong together"));
  }
  const Shape codes = compressed                ? Shape{rows_, columns_ / kCodes}
                      : format_ == Format::kAwq ? Shape{columns_, rows_ / kCodes}
                                                : Shape{columns_ / kCodes, rows_};
  SLUICE_RETURN_IF_ERROR(CheckForm(*codes_, DType::kI32, codes));
  if (zeros_ == nullptr) return OkStatus();
  return CheckForm(*zeros_, DType::kI32,
                   compressed ? Shape{rows_ / kCodes, groups_} : Shape{groups_, rows_ / kCodes});
}

// Columns that are in groups one after the other have no order of their own.
Status Int4Matrix::ReadOrder(const files::FileTensor& group_of_column) {
  SLUICE_RETURN_IF_ERROR(CheckForm(group_of_column, DType::kI32, {columns_}));
  const int64_t each = columns_ / groups_;
  std::vector<std::vector<int32_t>> groups(static_cast<size_t>(groups_));
  bool sorted = true;
  for (int64_t column = 0; column < columns_; ++column) {
    const uint32_t group = WordAt(group_of_column, column);
    if (group >= static_cast<uint64_t>(groups_)) {
      return BadModel(StrCat("tensor \"", group_of_column.name, "\" puts column ", column,
                             " into group ", static_cast<int32_t>(group), " of ", groups_,
                             "; the file is damaged, so fetch it anew"));
    }
    groups[group].push_back(static_cast<int32_t>(column));
    sorted &= group == static_cast<uint64_t>(column / each);
  }
  for (int64_t group = 0; group < groups_; ++group) {
    const std::vector<int32_t>& columns = groups[static_cast<size_t>(group)];
    if (static_cast<int64_t>(columns.size()) != each) {
      return BadModel(StrCat("tensor \"", group_of_column.name, "\" puts ", columns.size(),
                             " columns into group ", group, ", but groups of ", each,
                             " columns are supported; use another version of the model"));
    }
    if (!sorted) order_.insert(order_.end(), columns.begin(), columns.end());
  }
  return OkStatus();
}

int Int4Matrix::CodeAt(int64_t row, int64_t column) const {
  switch (format_) {
    case Format::kAwq:
      return WordAt(*codes_, column * (rows_ / kCodes) + row / kCodes) >> kAwqShift[row % kCodes] &
             15;
    case Format::kGptq:
      return WordAt(*codes_, column / kCodes * rows_ + row) >> 4 * (column % kCodes) & 15;
    case Format::kCompressed:
      return WordAt(*codes_, row * (columns_ / kCodes) + column / kCodes) >> 4 * (column % kCodes) &
             15;
  }
  return 0;
}

int Int4Matrix::ZeroAt(int64_t row, int64_t group) const {
  if (zeros_ == nullptr) return kMiddle;
  switch (format_) {
    case Format::kAwq:
      return WordAt(*zeros_, group * (rows_ / kCodes) + row / kCodes) >> kAwqShift[row % kCodes] &
             15;
    case Format::kGptq:
      // Stored less 1.
      return static_cast<int>(WordAt(*zeros_, group * (rows_ / kCodes) + row / kCodes) >>
                                  4 * (row % kCodes) &
                              15) +
             1;
    case Format::kCompressed:
      return WordAt(*zeros_, row / kCodes * groups_ + group) >> 4 * (row % kCodes) & 15;
  }
  return kMiddle;
}

std::vector<std::byte> Int4Matrix::Rows(int64_t first, int64_t count) const {
  const int64_t blocks = columns_ / kBlock, each = columns_ / groups_;
  std::vector<std::byte> out(static_cast<size_t>(count * blocks) * kBlockBytes);
  const auto column_of = [&](int64_t column) {
    return order_.empty() ? column : int64_t{order_[static_cast<size_t>(column)]};
  };
  // Columns outside: AWQ and GPTQ have those of neighbouring rows side by side.
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t group = b * kBlock / each;
    for (int64_t r = 0; r < count; ++r) {
      const int64_t row = first + r;
      const float scale = format_ == Format::kCompressed ? scale_values_[row * groups_ + group]
                                                         : scale_values_[group * rows_ + row];
      const uint16_t head[2] = {F32ToF16(scale),
                                F32ToF16(-scale * static_cast<float>(ZeroAt(row, group)))};
      std::byte* to = out.data() + static_cast<size_t>(r * blocks + b) * kBlockBytes;
      std::memcpy(to, head, sizeof head);
      for (int64_t i = 0; i < kBlock / 2; ++i) {
        const int low = CodeAt(row, column_of(b * kBlock + i));
        const int high = CodeAt(row, column_of(b * kBlock + kBlock / 2 + i));
        to[sizeof head + static_cast<size_t>(i)] = static_cast<std::byte>(low | high << 4);
      }
    }
  }
  return out;
}

}  // namespace sluice::weights
