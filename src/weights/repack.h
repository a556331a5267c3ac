// From the rows of a checkpoint to the layout that the chosen Linear reads. Any thread.
#pragma once

#include <algorithm>
#include <span>

#include "weights/plan.h"
#include "weights/transform.h"

namespace sluice::weights {

// Calls body(i, run) for all `rows` of the part, in the order of the part: `run` lies together in
// tensor i of the parameter, run.row is its first row's place in the part. The first error ends it.
template <class Body>
Status ForEachRun(const ResolvedParam& param, const PlannedPart& part, RowRange rows, Body&& body) {
  int64_t first = 0;  // of the source, in the part
  for (size_t i = part.first; i < part.first + part.count; ++i) {
    const int64_t end = std::min(rows.end - first, param.sources[i].rows);
    for (int64_t at = std::max<int64_t>(rows.begin - first, 0); at < end;) {
      RowRun run = RunAt(param.sources[i], at, end);
      run.row += first;
      SLUICE_RETURN_IF_ERROR(body(i, run));
      at += run.count;
    }
    first += param.sources[i].rows;
  }
  return OkStatus();
}

// Packs `rows` of the part into `out`, which holds the rows `held` as they lie on the device:
// part.BytesOf(held) bytes of host memory, zero where `rows` go. Calls for disjoint rows may
// run at the same time. REQUIRES: both ranges as for BytesOf, `rows` lies in `held`.
Status PackPartRows(const ResolvedParam& param, const PlannedPart& part, RowRange held,
                    RowRange rows, std::span<std::byte> out);

// What lies in a part with scales_of: the scales of part `of`, which has scales, and behind them
// that of x where there is one. A static scale for several matrices is the largest of theirs.
std::vector<float> PartScales(const ResolvedParam& param, const PlannedPart& of);

}  // namespace sluice::weights
