#include "weights/transform.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "ops/formats/rows.h"
#include "weights/scales.h"

namespace sluice::weights {
namespace {

template <class T>
T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

void Append(std::vector<std::byte>* out, const void* from, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(from);
  out->insert(out->end(), begin, begin + bytes);
}

}  // namespace

RowRun RunAt(const ParamSource& source, int64_t row, int64_t end) {
  CHECK(row >= 0 && row < end && end <= source.rows, source.name, ": rows ", row, " to ", end);
  const RowPick& pick = source.pick;
  if (pick.groups == 0) return {row, end - row, row};
  const int64_t group = pick.first + row / pick.count, within = row % pick.count;
  return {group * pick.group_rows + pick.begin + within, std::min(pick.count - within, end - row),
          row};
}

files::FileTensor RowsOf(const files::FileTensor& tensor, int64_t from, int64_t count) {
  int64_t all = 1;  // those of a stack of matrices, too
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) all *= tensor.shape[i];
  const size_t row_bytes = tensor.data.size() / static_cast<size_t>(all);
  files::FileTensor rows = tensor;
  rows.shape = {count, tensor.shape.back()};
  rows.data = tensor.data.subspan(static_cast<size_t>(from) * row_bytes,
                                  static_cast<size_t>(count) * row_bytes);
  return rows;
}

files::FileTensor NumbersOf(const files::FileTensor& tensor, int64_t from, int64_t count) {
  const auto width = static_cast<size_t>(Info(tensor.dtype).bytes);
  files::FileTensor numbers = tensor;
  numbers.shape = {count};
  numbers.data =
      tensor.data.subspan(static_cast<size_t>(from) * width, static_cast<size_t>(count) * width);
  return numbers;
}

std::vector<float> ToF32(const files::FileTensor& tensor) {
  const size_t width = static_cast<size_t>(Info(tensor.dtype).bytes);
  std::vector<float> values(tensor.data.size() / width);
  for (size_t i = 0; i < values.size(); ++i) {
    const std::byte* at = tensor.data.data() + i * width;
    switch (tensor.dtype) {
      case DType::kF32:
        values[i] = Load<float>(at);
        break;
      case DType::kF16:
        values[i] = F16ToF32(Load<uint16_t>(at));
        break;
      case DType::kBF16:
        values[i] = BF16ToF32(Load<uint16_t>(at));
        break;
      default:
        CHECK(false, tensor.name, " is ", Name(tensor.dtype));
    }
  }
  return values;
}

std::vector<std::byte> VectorBytes(const ResolvedParam& param, DType dtype) {
  std::vector<std::byte> out;
  const std::vector<float>& factors = param.spec.row_factors;
  int64_t taken = 0;
  const auto append = [&](const files::FileTensor& tensor) {
    for (float value : ToF32(tensor)) {
      if (!factors.empty()) value *= factors[static_cast<size_t>(taken++ / param.spec.columns)];
      if (param.add_one) value += 1.0f;
      if (param.negated_log) value = -std::exp(value);
      value *= param.spec.factor;
      if (dtype == DType::kF32) {
        Append(&out, &value, sizeof value);
      } else {
        const uint16_t half = dtype == DType::kF16 ? F32ToF16(value) : F32ToBF16(value);
        Append(&out, &half, sizeof half);
      }
    }
  };
  for (size_t i = 0; i < param.tensors.size(); ++i) {
    const ParamSource& source = param.sources[i];
    if (source.pick.groups == 0) {
      append(*param.tensors[i]);
      continue;
    }
    for (int64_t row = 0; row < source.rows;) {
      const RowRun run = RunAt(source, row, source.rows);
      append(NumbersOf(*param.tensors[i], run.from, run.count));
      row += run.count;
    }
  }
  return out;
}

std::vector<std::byte> WidenBlocks(const files::FileTensor& tensor, const SourceScales& scales,
                                   std::span<const std::byte> rows, int64_t first, int64_t count) {
  const auto columns = static_cast<size_t>(tensor.shape.back());
  const size_t row_bytes = RowBytes(tensor.dtype, columns);
  const ScaleReader reader(tensor, scales);
  std::vector<float> values(columns);
  std::vector<std::byte> out(static_cast<size_t>(count) * columns * sizeof(uint16_t));
  std::byte* to = out.data();
  for (int64_t r = 0; r < count; ++r) {
    ops::DequantizeRow(tensor.dtype, rows.data() + static_cast<size_t>(r) * row_bytes, values);
    const float factor = reader.At(first + r, 0);
    for (const float value : values) {
      const uint16_t bits = F32ToBF16(value * factor);
      std::memcpy(to, &bits, sizeof bits);
      to += sizeof bits;
    }
  }
  return out;
}

std::vector<std::byte> WidenF8(const files::FileTensor& tensor, const SourceScales& scales,
                               int64_t first, int64_t count) {
  const size_t columns = tensor.data.size() / static_cast<size_t>(tensor.shape[0]);
  const ScaleReader reader(tensor, scales);
  std::vector<std::byte> out(static_cast<size_t>(count) * columns * sizeof(uint16_t));
  std::byte* to = out.data();
  for (int64_t r = first; r < first + count; ++r) {
    const std::byte* from = tensor.data.data() + static_cast<size_t>(r) * columns;
    for (size_t c = 0; c < columns; ++c, to += sizeof(uint16_t)) {
      const float factor = reader.At(r, static_cast<int64_t>(c));
      const uint16_t value = F32ToBF16(F8E4M3ToF32(static_cast<uint8_t>(from[c])) * factor);
      std::memcpy(to, &value, sizeof value);
    }
  }
  return out;
}

}  // namespace sluice::weights
