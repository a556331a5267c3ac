// When requests are sent whose rate is given. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::load {

// Seconds since the start at which each of `count` requests is sent, in ascending order. The times
// between them follow a gamma distribution of the shape `burstiness`: 1 is a Poisson process, less
// comes in bursts, more is more even. They are scaled so that the last one comes at count / rate,
// as `vllm bench serve` does it. An infinite rate gives zeros. REQUIRES: rate > 0, burstiness > 0
// and finite.
std::vector<double> Arrivals(size_t count, double rate, double burstiness, uint64_t seed);

}  // namespace sluice::load
