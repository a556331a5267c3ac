// ForRows: splits independent rows over the stream's threads.
#pragma once

#include <cstdint>

#include "backend/cpu/stream.h"
#include "backend/cpu/thread_pool.h"

namespace sluice::cpu {

// Below this many elements waking a thread costs more than it saves (a few microseconds).
inline constexpr int64_t kParallelElements = 16384;

// Calls body(begin, end) for disjoint ranges that cover [0, rows); on this thread alone when there
// is little to do. `row_elements`: elements touched per row.
template <class Body>
void ForRows(CpuStream& stream, int64_t rows, int64_t row_elements, const Body& body) {
  if (rows <= 1 || rows * row_elements < kParallelElements || stream.pool().threads() == 1) {
    body(int64_t{0}, rows);
    return;
  }
  stream.pool().Run([&](int thread, int threads) {
    const Share share = ShareOf(rows, thread, threads);
    if (share.begin < share.end) body(share.begin, share.end);
  });
}

}  // namespace sluice::cpu
