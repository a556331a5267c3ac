#include "device/ceilings.h"

#include <algorithm>

namespace sluice::device {

Spread SpreadOf(std::vector<double> runs) {
  std::sort(runs.begin(), runs.end());
  const size_t n = runs.size();
  const double median = n % 2 == 1 ? runs[n / 2] : (runs[n / 2 - 1] + runs[n / 2]) / 2;
  return {median, runs.front(), runs.back()};
}

}  // namespace sluice::device
