// For fuzz targets: what libFuzzer calls, with a bound on the time that an input may take. One
// source of a program includes it and defines FuzzInput.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace sluice {

// Uses one input; the bytes are gone when it returns.
void FuzzInput(std::string_view input);

// Milliseconds of CPU time of this thread: a busy machine does not lengthen them.
inline double ThreadMilliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

// What an input may take under the sanitizers: 1 s for 64 KiB, and half of that for what does not
// depend on its length. Work that grows with the square of the length is 4 billion steps at 64 KiB
// and takes several seconds anywhere; honest work takes up to 100 ms on a fast machine and 300 ms
// was seen on a slow one whose cores were shared.
inline double MillisecondsMax(size_t bytes) {
  return 500.0 + 500.0 * static_cast<double>(bytes) / (64 << 10);
}

}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // What is made once for all inputs, a page fault, a neighbour in the cache: the best try counts.
  constexpr int kTries = 3;
  const double limit = sluice::MillisecondsMax(size);
  double least = 0;
  for (int i = 0; i < kTries; ++i) {
    const double start = sluice::ThreadMilliseconds();
    sluice::FuzzInput({reinterpret_cast<const char*>(data), size});
    const double taken = sluice::ThreadMilliseconds() - start;
    least = i == 0 ? taken : std::min(least, taken);
    if (least <= limit) return 0;
  }
  std::fprintf(stderr, "an input of %zu bytes takes %.0f ms of CPU time; the limit is %.0f\n", size,
               least, limit);
  std::abort();
}
