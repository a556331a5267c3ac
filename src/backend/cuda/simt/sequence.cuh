// Which sequence of a step a row belongs to.
#pragma once

#include <cstdint>

namespace sluice::cuda {

// The sequence whose rows hold `row`, or -1: padding. `query_start`: where the rows of each begin,
// ascending, and their end, [sequences + 1].
__device__ inline int SequenceOf(const int32_t* query_start, int sequences, int64_t row) {
  if (sequences == 0 || row >= query_start[sequences]) return -1;
  int low = 0, high = sequences;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (query_start[middle] <= row) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace sluice::cuda
