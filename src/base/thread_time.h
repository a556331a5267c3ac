// CPU time of the calling thread.
#pragma once

#include <cstdint>
#include <ctime>

namespace sluice {

inline int64_t ThreadMicros() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000 + time.tv_nsec / 1000;
}

}  // namespace sluice
