// What rendering a chat template may cost.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sluice::text {

struct RenderLimits {
  int64_t steps_max = 10'000'000;       // statements and expressions evaluated
  size_t output_bytes_max = 16u << 20;  // of output, and of any one string on the way
  int depth_max = 100;                  // of macro calls and expression nesting
  // May be null. A rendering fails soon after this has become true.
  const std::atomic<bool>* cancelled = nullptr;
};

}  // namespace sluice::text
