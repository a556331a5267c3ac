#include "weights/nvfp4.h"

#include <algorithm>
#include <string>

#include "base/str_cat.h"
#include "weights/scales.h"

namespace sluice::weights {
namespace {

constexpr int64_t kNvfp4Block = 64, kSub = 16;  // of GGUF's format
constexpr int64_t kSubs = kNvfp4Block / kSub;
constexpr size_t kNvfp4BlockBytes = kSubs + kNvfp4Block / 2;
constexpr auto kNvfp4NoNumber = std::byte{0x7f};  // as a scale; greater ones are negative

std::string Packed(std::string_view name) { return StrCat(name, "_packed"); }

const files::FileTensor* CodesOf(std::string_view name, const files::TensorSource& source) {
  for (const std::string& spelling : {std::string(name), Packed(name)}) {
    const files::FileTensor* codes = source.Find(spelling);
    if (codes != nullptr && codes->dtype == DType::kU8) return codes;
  }
  return nullptr;
}

Status CheckBlockScales(const files::FileTensor& scales) {
  const auto bad = std::find_if(scales.data.begin(), scales.data.end(),
                                [](std::byte scale) { return scale >= kNvfp4NoNumber; });
  if (bad == scales.data.end()) return OkStatus();
  return BadModel(StrCat("tensor \"", scales.name, "\" has as its number ",
                         bad - scales.data.begin(),
                         " a scale that is negative or no number; the file is damaged, so fetch it "
                         "anew"));
}

std::byte CodeAt(const std::byte* row, int64_t column) {
  return column % 2 == 0 ? row[column / 2] & std::byte{15} : row[column / 2] >> 4;
}

}  // namespace

bool Nvfp4Matrix::IsIn(std::string_view name, const files::TensorSource& source) {
  return CodesOf(name, source) != nullptr;
}

Result<std::shared_ptr<const Nvfp4Matrix>> Nvfp4Matrix::Find(std::string_view name, int64_t rows,
                                                             int64_t columns,
                                                             const files::TensorSource& source) {
  if (!IsIn(name, source)) return std::shared_ptr<const Nvfp4Matrix>();
  if (columns % kNvfp4Block != 0) {
    return BadModel(StrCat("tensor \"", name, "\" is in NVFP4 but has ", columns,
                           " columns, which are no multiple of ", kNvfp4Block,
                           "; use another version of the model"));
  }
  auto matrix = std::make_shared<Nvfp4Matrix>();
  matrix->tensor_ = {std::string(name), DType::kNVFP4, {rows, columns}, {}};
  matrix->columns_ = columns;
  matrix->codes_ = CodesOf(name, source);
  const std::string& beside = matrix->codes_->name;
  const bool compressed = beside == Packed(name);
  SLUICE_ASSIGN_OR_RETURN(matrix->block_scales_,
                          FindNeeded(source, StrCat(name, "_scale"), beside, "NVFP4"));
  SLUICE_ASSIGN_OR_RETURN(
      matrix->scales_.weight,
      FindNeeded(source, StrCat(name, compressed ? "_global_scale" : "_scale_2"), beside, "NVFP4"));
  matrix->scales_.covers = ops::WeightScales::kTensor;
  matrix->scales_.divides = compressed;
  SLUICE_RETURN_IF_ERROR(CheckForm(*matrix->codes_, DType::kU8, {rows, columns / 2}));
  SLUICE_RETURN_IF_ERROR(CheckForm(*matrix->block_scales_, DType::kF8E4M3, {rows, columns / kSub}));
  SLUICE_RETURN_IF_ERROR(CheckBlockScales(*matrix->block_scales_));
  SLUICE_RETURN_IF_ERROR(CheckOneNumber(*matrix->scales_.weight, "the scale of a matrix in NVFP4"));
  return std::shared_ptr<const Nvfp4Matrix>(std::move(matrix));
}

std::vector<std::byte> Nvfp4Matrix::Rows(int64_t first, int64_t count) const {
  std::vector<std::byte> out(static_cast<size_t>(count * columns_ / kNvfp4Block) *
                             kNvfp4BlockBytes);
  std::byte* to = out.data();
  for (int64_t row = first; row < first + count; ++row) {
    const std::byte* codes = codes_->data.data() + row * columns_ / 2;
    const std::byte* scales = block_scales_->data.data() + row * columns_ / kSub;
    for (int64_t block = 0; block < columns_ / kNvfp4Block; ++block) {
      to = std::copy_n(scales + block * kSubs, kSubs, to);
      for (int64_t sub = 0; sub < kSubs; ++sub) {
        const int64_t column = block * kNvfp4Block + sub * kSub;
        for (int64_t i = 0; i < kSub / 2; ++i) {
          *to++ = CodeAt(codes, column + i) | CodeAt(codes, column + kSub / 2 + i) << 4;
        }
      }
    }
  }
  return out;
}

}  // namespace sluice::weights
