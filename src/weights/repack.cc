#include "weights/repack.h"

#include "base/check.h"
#include "weights/scales.h"

namespace sluice::weights {
namespace {

// Rows that are widened or brought from another format at a time.
constexpr int64_t kConvertRows = 256;

// Rows of `tensor` in BF16. `derived`: their bytes where the tensor has none of its own.
std::vector<std::byte> Widened(const files::FileTensor& tensor, const SourceScales& scales,
                               std::span<const std::byte> derived, int64_t first, int64_t count) {
  if (tensor.dtype == DType::kF8E4M3) return WidenF8(tensor, scales, first, count);
  return WidenBlocks(tensor, scales, derived.empty() ? RowsOf(tensor, first, count).data : derived,
                     first, count);
}

}  // namespace

Status PackPartRows(const ResolvedParam& param, const PlannedPart& part, RowRange held,
                    RowRange rows, std::span<std::byte> out) {
  CHECK(held.begin <= rows.begin && rows.end <= held.end, param.spec.name, ": rows ", rows.begin,
        " to ", rows.end, " of ", held.begin, " to ", held.end);
  const ops::LinearPacking& packing = *part.packing;
  ops::Linear::Desc desc = part.packed;
  desc.n = held.end - held.begin;
  return ForEachRun(param, part, rows, [&](size_t i, const RowRun& run) {
    const files::FileTensor& tensor = *param.tensors[i];
    const int64_t to = run.row - held.begin;
    const bool as_stored = tensor.dtype == part.dtype;
    if (as_stored && param.derived[i] == nullptr) {
      return packing.pack(desc, to, RowsOf(tensor, run.from, run.count).data, out);
    }
    for (int64_t at = 0; at < run.count; at += kConvertRows) {
      const int64_t first = run.from + at, count = std::min(kConvertRows, run.count - at);
      std::vector<std::byte> made;
      if (param.derived[i] != nullptr) made = param.derived[i]->Rows(first, count);
      if (!as_stored) made = Widened(tensor, param.scales[i], made, first, count);
      SLUICE_RETURN_IF_ERROR(packing.pack(desc, to + at, made, out));
    }
    return OkStatus();
  });
}

std::vector<float> PartScales(const ResolvedParam& param, const PlannedPart& of) {
  const ops::Linear::Desc& desc = of.packed;
  const ops::WeightScales covers = desc.weight_scales;
  const int64_t rows_each = covers == ops::WeightScales::kRow ? 1 : ops::kScaleBlock;
  const int64_t columns_each = covers == ops::WeightScales::kBlock ? ops::kScaleBlock : desc.k;
  std::vector<float> scales;
  if (covers == ops::WeightScales::kTensor) {
    scales.push_back(ScaleReader(*param.tensors[of.first], param.scales[of.first]).At(0, 0));
  } else {
    (void)ForEachRun(param, of, {0, of.rows}, [&](size_t i, const RowRun& run) {
      const ScaleReader reader(*param.tensors[i], param.scales[i]);
      for (int64_t row = 0; row < run.count; row += rows_each) {
        for (int64_t k = 0; k < desc.k; k += columns_each) {
          scales.push_back(reader.At(run.from + row, k));
        }
      }
      return OkStatus();
    });
  }
  if (desc.x_scales != ops::ActivationScales::kTensor) return scales;
  float largest = 0.0f;
  for (size_t i = of.first; i < of.first + of.count; ++i) {
    largest = std::max(largest, ToF32(*param.scales[i].input).front());
  }
  scales.push_back(largest);
  return scales;
}

}  // namespace sluice::weights
