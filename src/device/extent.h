// How much of something a kernel runs over, in up to three dimensions. Plain values.
#pragma once

#include <cstddef>

namespace sluice::device {

// A dimension that is not named is 1, so `Extent<unsigned>{a, b}` is a times b. (An array would
// have 0 there, and a launch of 0 blocks is one that does nothing.)
template <class T>
struct Extent {
  T x = 1, y = 1, z = 1;

  constexpr T& operator[](size_t i) { return i == 0 ? x : i == 1 ? y : z; }
  constexpr T operator[](size_t i) const { return i == 0 ? x : i == 1 ? y : z; }
  constexpr bool empty() const { return x == 0 || y == 0 || z == 0; }
};

}  // namespace sluice::device
