#include "cli/load/arrivals.h"

#include <boost/random/gamma_distribution.hpp>

#include <cmath>

#include "base/check.h"
#include "cli/load/random_bits.h"

namespace sluice::load {

std::vector<double> Arrivals(size_t count, double rate, double burstiness, uint64_t seed) {
  CHECK(rate > 0 && burstiness > 0 && std::isfinite(burstiness), rate, burstiness);
  std::vector<double> times(count);
  if (count == 0 || std::isinf(rate)) return times;
  RandomBits bits(seed, RandomPurpose::kArrivals);
  boost::random::gamma_distribution<double> gap(burstiness, 1 / (rate * burstiness));
  double now = 0;
  for (double& time : times) time = now += gap(bits);
  const double scale = static_cast<double>(count) / rate / now;
  // A shape near 0 may draw nothing but zeros.
  for (double& time : times) time = now > 0 ? time * scale : static_cast<double>(count) / rate;
  return times;
}

}  // namespace sluice::load
