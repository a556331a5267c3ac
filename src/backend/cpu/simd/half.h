// Types of 16-bit floats in memory, so that overloads tell them apart. Plain values.
#pragma once

#include <cstdint>

namespace sluice::cpu {

struct Half {
  uint16_t bits;
};
struct BFloat {
  uint16_t bits;
};

}  // namespace sluice::cpu
