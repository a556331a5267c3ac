// The body of the loops that read. For files compiled for an instruction set.
#pragma once

#include "backend/cpu/ceilings/kernels.h"

namespace sluice::cpu {
namespace {

constexpr size_t kTurnBytes = 256;  // of a stream before the next has its turn

template <class Vector, int kStreams, int kAheadBytes>
size_t ReadStreams(const std::byte* data, size_t bytes) {
  constexpr int kLoads = kTurnBytes / sizeof(Vector);
  const size_t part = bytes / kStreams / kTurnBytes * kTurnBytes;
  Vector sums[4] = {};
  for (size_t at = 0; at < part; at += kTurnBytes) {
    for (int stream = 0; stream < kStreams; ++stream) {
      const std::byte* turn = data + stream * part + at;
      if (kAheadBytes > 0) {
        for (size_t line = 0; line < kTurnBytes; line += 64) {
          __builtin_prefetch(turn + kAheadBytes + line);
        }
      }
      for (int i = 0; i < kLoads; ++i) {
        sums[i % 4] += *reinterpret_cast<const Vector*>(turn + i * sizeof(Vector));
      }
    }
  }
  const Vector sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  asm volatile("" ::"m"(sum));  // somebody needs it
  return part * kStreams;
}

template <class Vector>
constexpr ReadKernels MakeReadKernels() {
  return {{&ReadStreams<Vector, 1, 0>, &ReadStreams<Vector, 1, 2048>, &ReadStreams<Vector, 4, 0>,
           &ReadStreams<Vector, 4, 1024>, &ReadStreams<Vector, 16, 512>}};
}

}  // namespace
}  // namespace sluice::cpu
