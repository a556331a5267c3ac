#include "experts/loads.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace sluice::experts {

Loads::Loads(std::vector<int> layers, int experts)
    : layers_(std::move(layers)),
      experts_(experts),
      counts_(layers_.size() * static_cast<size_t>(experts)),
      loads_(counts_.size()) {}

void Loads::Take(std::span<const uint32_t> counts, int64_t now_us) {
  CHECK(counts.size() == counts_.size(), counts.size(), " counts of ", counts_.size());
  const double passed_s =
      takes_ == 0 ? 0.0 : 1e-6 * static_cast<double>(std::max<int64_t>(0, now_us - taken_us_));
  const double kept = std::exp2(-passed_s / kHalfLifeS);
  for (size_t i = 0; i < counts.size(); ++i) {
    const uint32_t added = counts[i] - counts_[i];  // right past 2^32, too
    loads_[i] = loads_[i] * kept + added;
    choices_ += added;
    counts_[i] = counts[i];
  }
  taken_us_ = now_us;
  ++takes_;
}

void Loads::Restart(std::span<const uint32_t> counts) {
  CHECK(counts.size() == counts_.size(), counts.size(), " counts of ", counts_.size());
  counts_.assign(counts.begin(), counts.end());
  std::fill(loads_.begin(), loads_.end(), 0.0);
  choices_ = takes_ = 0;
}

double Imbalance(std::span<const double> loads) {
  const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
  if (sum <= 0.0) return 1.0;
  return *std::max_element(loads.begin(), loads.end()) * static_cast<double>(loads.size()) / sum;
}

}  // namespace sluice::experts
