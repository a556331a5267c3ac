// Full tiles of 16 rows of 64 bytes in all eight registers, by asm: GCC 12's intrinsic for the
// configuration lets stores before it get lost. For files that run only where AMX is.
#pragma once

#include "backend/cpu/ceilings/kernels.h"

namespace sluice::cpu {
namespace {

struct alignas(64) FullTiles {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr FullTiles kFullTiles;

// Six sums that do not wait for one another; two registers hold the operands, of 1 KiB each.
inline __attribute__((always_inline)) void BeginTiles(const void* a, const void* b) {
  asm volatile(
      "ldtilecfg %0\n\t"
      "tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\t"
      "tilezero %%tmm3\n\ttilezero %%tmm4\n\ttilezero %%tmm5\n\t"
      "tileloadd (%1,%3,1), %%tmm6\n\ttileloadd (%2,%3,1), %%tmm7" ::"m"(kFullTiles),
      "r"(a), "r"(b), "r"(int64_t{64})
      : "memory");
}
inline __attribute__((always_inline)) void EndTiles() { asm volatile("tilerelease"); }

}  // namespace
}  // namespace sluice::cpu
