// ForRows: splits independent rows over the stream's threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/stream.h"
#include "backend/cpu/thread_pool.h"

namespace sluice::cpu {

// Below this many elements waking a thread costs more than it saves (a few microseconds).
inline constexpr int64_t kParallelElements = 16384;
// So that a thread that was interrupted does not hold up the others.
inline constexpr int64_t kPartsPerThread = 4;

// Calls body(begin, end) for disjoint ranges that cover [0, rows); on this thread alone when there
// is little to do. `row_elements`: elements touched per row.
template <class Body>
void ForRows(CpuStream& stream, int64_t rows, int64_t row_elements, const Body& body) {
  if (rows <= 1 || rows * row_elements < kParallelElements || stream.pool().threads() == 1) {
    body(int64_t{0}, rows);
    return;
  }
  const int64_t parts = std::min<int64_t>(rows, kPartsPerThread * stream.pool().threads());
  stream.pool().ParallelFor(parts, [&](int64_t part, int) {
    const Share share = ShareOf(rows, part, parts);
    body(share.begin, share.end);
  });
}

}  // namespace sluice::cpu
