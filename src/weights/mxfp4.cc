#include "weights/mxfp4.h"

#include <algorithm>
#include <string>

#include "base/str_cat.h"
#include "weights/scales.h"

namespace sluice::weights {
namespace {

constexpr int64_t kMxfp4Block = 32, kCodeBytes = kMxfp4Block / 2;
constexpr size_t kMxfp4BlockBytes = 1 + kCodeBytes;    // GGUF's: the exponent first
constexpr std::byte kMxfp4NoNumber = std::byte{0xff};  // as an exponent

std::byte Low(std::byte code) { return code & std::byte{15}; }
std::byte High(std::byte code) { return code >> 4; }

}  // namespace

bool Mxfp4Matrix::IsIn(std::string_view name, const files::TensorSource& source) {
  return source.Find(StrCat(name, "_blocks")) != nullptr;
}

Result<std::shared_ptr<const Mxfp4Matrix>> Mxfp4Matrix::Find(std::string_view name, int64_t experts,
                                                             int64_t rows, int64_t columns,
                                                             const files::TensorSource& source) {
  if (!IsIn(name, source)) return std::shared_ptr<const Mxfp4Matrix>();
  if (columns % kMxfp4Block != 0) {
    return BadModel(StrCat("tensor \"", name, "\" is in MXFP4 but has ", columns,
                           " columns, which are no multiple of ", kMxfp4Block));
  }
  auto matrix = std::make_shared<Mxfp4Matrix>();
  matrix->tensor_ = {std::string(name), DType::kMXFP4, {experts, rows, columns}, {}};
  matrix->row_blocks_ = columns / kMxfp4Block;
  matrix->blocks_ = source.Find(StrCat(name, "_blocks"));
  SLUICE_ASSIGN_OR_RETURN(
      matrix->scales_, FindNeeded(source, StrCat(name, "_scales"), matrix->blocks_->name, "MXFP4"));
  SLUICE_RETURN_IF_ERROR(
      CheckForm(*matrix->blocks_, DType::kU8, {experts, rows, matrix->row_blocks_, kCodeBytes}));
  SLUICE_RETURN_IF_ERROR(
      CheckForm(*matrix->scales_, DType::kU8, {experts, rows, matrix->row_blocks_}));
  const auto& scales = matrix->scales_->data;
  if (std::find(scales.begin(), scales.end(), kMxfp4NoNumber) != scales.end()) {
    return BadModel(StrCat("tensor \"", matrix->scales_->name,
                           "\" has a scale of 255, which stands for no number; the file is "
                           "damaged"));
  }
  return std::shared_ptr<const Mxfp4Matrix>(std::move(matrix));
}

std::vector<std::byte> Mxfp4Matrix::Rows(int64_t first, int64_t count) const {
  const auto begin = static_cast<size_t>(first * row_blocks_);
  const auto blocks = static_cast<size_t>(count * row_blocks_);
  std::vector<std::byte> out(blocks * kMxfp4BlockBytes);
  for (size_t b = 0; b < blocks; ++b) {
    const std::byte* codes = blocks_->data.data() + (begin + b) * kCodeBytes;
    std::byte* to = out.data() + b * kMxfp4BlockBytes;
    *to++ = scales_->data[begin + b];
    // Here a byte has columns 2i and 2i + 1, there i and i + 16.
    for (int64_t i = 0; i < kCodeBytes; ++i) {
      const auto code = [&](int64_t column) {
        return column % 2 == 0 ? Low(codes[column / 2]) : High(codes[column / 2]);
      };
      to[i] = code(i) | code(i + kCodeBytes) << 4;
    }
  }
  return out;
}

}  // namespace sluice::weights
