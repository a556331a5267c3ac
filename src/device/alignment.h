// Where memory begins: every buffer of a device, and everything that is put into a part of one.
#pragma once

#include <cstddef>

namespace sluice::device {

// Wide enough for the loads of every kernel, and what drivers copy fastest.
inline constexpr size_t kAlignment = 256;

constexpr size_t AlignUp(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace sluice::device
