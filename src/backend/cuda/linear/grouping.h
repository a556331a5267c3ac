// How the rows of a grouped product are shared out among experts.
#pragma once

#include <cstdint>

namespace sluice::cuda {

// Pointers into device memory, as ops::GroupedLinear::Args has them.
struct Grouping {
  int experts = 0;
  const int32_t* starts = nullptr;  // [experts + 1]
  const int32_t* tokens = nullptr;  // by place, its row of x; null: the place itself
  int64_t bias_stride = 0;          // elements from one expert's bias to the next one's
};

}  // namespace sluice::cuda
