#include "weights/repack.h"

#include "base/check.h"

namespace sluice::weights {
namespace {

// Rows that are widened at a time.
constexpr int64_t kWidenRows = 256;

}  // namespace

Status PackPartRows(const ResolvedParam& param, const PlannedPart& part, RowRange held,
                    RowRange rows, std::span<std::byte> out) {
  CHECK(held.begin <= rows.begin && rows.end <= held.end, param.spec.name, ": rows ", rows.begin,
        " to ", rows.end, " of ", held.begin, " to ", held.end);
  const ops::LinearPacking& packing = *part.packing;
  ops::Linear::Desc desc = part.linear.desc();
  desc.n = held.end - held.begin;
  return ForEachRun(param, part, rows, [&](size_t i, const RowRun& run) {
    const files::FileTensor& tensor = *param.tensors[i];
    const int64_t to = run.row - held.begin;
    if (tensor.dtype == part.dtype) {
      return packing.pack(desc, to, RowsOf(tensor, run.from, run.count).data, out);
    }
    for (int64_t at = 0; at < run.count; at += kWidenRows) {
      const int64_t count = std::min(kWidenRows, run.count - at);
      const std::vector<std::byte> wide = WidenF8(tensor, param.scales[i], run.from + at, count);
      SLUICE_RETURN_IF_ERROR(packing.pack(desc, to + at, wide, out));
    }
    return OkStatus();
  });
}

}  // namespace sluice::weights
