// Numbers for tests of large products.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/host_array.h"

namespace sluice::cuda {

// Numbers in [-1, 1) times `scale`, which repeat so late that rows of 1024 and more elements
// differ: to draw each anew would take most of a test's time.
inline ops::Array RepeatedNoise(DType dtype, std::vector<int64_t> dims, uint64_t seed,
                                float scale = 1.0f) {
  constexpr int64_t kPeriod = 1000003;
  ops::Array array(dtype, std::move(dims));
  const auto count = static_cast<int64_t>(array.Count());
  const int64_t drawn = std::min(count, kPeriod);
  ops::TestNoise noise(seed);
  for (int64_t i = 0; i < drawn; ++i) array.Set(static_cast<size_t>(i), noise.Value() * scale);
  std::byte* const data = array.tensor().data;
  const auto element = static_cast<size_t>(Info(dtype).bytes);
  for (int64_t done = drawn; done < count; done += drawn) {
    std::memcpy(data + static_cast<size_t>(done) * element, data,
                static_cast<size_t>(std::min(drawn, count - done)) * element);
  }
  return array;
}

}  // namespace sluice::cuda
