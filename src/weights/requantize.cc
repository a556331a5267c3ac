#include "weights/requantize.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "base/str_cat.h"
#include "base/visible.h"
#include "ops/formats/rows.h"

namespace sluice::weights {
namespace {

// Elements that are converted between two calls of the sink: enough work for threads, and little
// enough to stop soon.
constexpr size_t kChunkElements = 1u << 20;
constexpr size_t kCopyBytes = 4u << 20;

struct Rows {
  DType from, to;
  size_t columns;
  std::span<const std::byte> in;
  std::span<std::byte> out;
  std::span<double> errors;  // per row: the sum of squared changes
};

void ConvertRows(const Rows& rows, size_t begin, size_t end) {
  std::vector<float> before(rows.columns), after(rows.columns);
  const size_t in_bytes = RowBytes(rows.from, rows.columns);
  const size_t out_bytes = RowBytes(rows.to, rows.columns);
  for (size_t r = begin; r < end; ++r) {
    std::byte* out = rows.out.data() + r * out_bytes;
    ops::DequantizeRow(rows.from, rows.in.data() + r * in_bytes, before);
    ops::QuantizeRow(rows.to, before, out);
    ops::DequantizeRow(rows.to, out, after);
    double sum = 0;
    for (size_t i = 0; i < rows.columns; ++i) {
      const double change = double{after[i]} - double{before[i]};
      sum += change * change;
    }
    rows.errors[r] = sum;
  }
}

void ConvertInParallel(const Rows& rows, int threads) {
  const size_t count = rows.errors.size();
  const size_t parts = std::clamp<size_t>(static_cast<size_t>(threads), 1, count);
  std::vector<std::jthread> workers;
  for (size_t part = 1; part < parts; ++part) {
    workers.emplace_back([&rows, part, parts, count] {
      ConvertRows(rows, count * part / parts, count * (part + 1) / parts);
    });
  }
  ConvertRows(rows, 0, count / parts);
}

void Release(const files::TensorSource& source, std::span<const std::byte> bytes) {
  files::FileTensor part;
  part.data = bytes;
  source.Release(part);
}

Status Copy(const files::TensorSource& source, const files::FileTensor& tensor,
            const ByteSink& sink) {
  for (size_t at = 0; at < tensor.data.size(); at += kCopyBytes) {
    const auto bytes = tensor.data.subspan(at, std::min(kCopyBytes, tensor.data.size() - at));
    SLUICE_RETURN_IF_ERROR(sink(bytes));
    Release(source, bytes);
  }
  return OkStatus();
}

}  // namespace

Result<double> Requantize(const files::TensorSource& source, const files::FileTensor& tensor,
                          DType dtype, int threads, const ByteSink& sink) {
  if (dtype == tensor.dtype) {
    SLUICE_RETURN_IF_ERROR(Copy(source, tensor, sink));
    return 0.0;
  }
  const size_t columns = static_cast<size_t>(tensor.shape.back());
  const size_t row_bytes = RowBytes(tensor.dtype, columns);
  const size_t rows = tensor.data.size() / row_bytes;
  const size_t chunk = std::clamp<size_t>(kChunkElements / columns, 1, rows);
  std::vector<std::byte> out(chunk * RowBytes(dtype, columns));
  std::vector<double> errors(chunk);
  double sum = 0;
  for (size_t row = 0; row < rows; row += chunk) {
    const size_t count = std::min(chunk, rows - row);
    const Rows part{tensor.dtype,
                    dtype,
                    columns,
                    tensor.data.subspan(row * row_bytes, count * row_bytes),
                    std::span(out).first(count * RowBytes(dtype, columns)),
                    std::span(errors).first(count)};
    ConvertInParallel(part, threads);
    for (double error : part.errors) sum += error;
    if (!std::isfinite(sum)) {
      return BadModel(StrCat("the tensor ", Quote(tensor.name), " holds values that ", Name(dtype),
                             " cannot hold (infinite, not a number, or too large)"));
    }
    SLUICE_RETURN_IF_ERROR(sink(part.out));
    Release(source, part.in);
  }
  return std::sqrt(sum / static_cast<double>(rows * columns));
}

}  // namespace sluice::weights
