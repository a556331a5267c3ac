#include "backend/cpu/sampling/select.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace sluice::cpu {
namespace {

constexpr int64_t kSortMax = 64;  // values that are sorted rather than halved

WeightCall Over(const WeightCall& weigh, const float* list, int64_t n, float cut) {
  WeightCall call = weigh;
  call.logits = list;
  call.n = call.ties_end = n;
  call.cut = cut;
  return call;
}

double MeasureAtLeast(const SamplingKernels& kernels, const WeightCall* weigh, const float* list,
                      int64_t n, float bound) {
  if (weigh == nullptr) return static_cast<double>(kernels.count_at_least(list, n, bound));
  return kernels.total(Over(*weigh, list, n, bound));
}

// How many of `count` values of one weight, on top of `base`, reach the target; 0 if all do not.
// Multiples of a weight are exact here, so this is what adding one by one would find.
int64_t TiesToReach(double base, double weight, int64_t count, double target) {
  if (base + static_cast<double>(count) * weight < target) return 0;
  if (!(weight > 0)) return 1;
  const double guess = std::ceil((target - base) / weight);
  int64_t ties = static_cast<int64_t>(std::clamp(guess, 1.0, static_cast<double>(count)));
  while (ties > 1 && base + static_cast<double>(ties - 1) * weight >= target) --ties;
  while (base + static_cast<double>(ties) * weight < target) ++ties;
  return ties;
}

// Of a list that is short or holds one value alone.
Cut CutOfShort(const SamplingKernels& kernels, const WeightCall* weigh, float* list, int64_t n,
               double base, double target) {
  const int64_t kinds = std::min(n, kSortMax);
  double weights[kSortMax];
  if (n <= kSortMax) std::sort(list, list + n, std::greater<>());
  if (weigh == nullptr) {
    std::fill_n(weights, kinds, 1.0);
  } else {
    kernels.weights(Over(*weigh, list, kinds, -std::numeric_limits<float>::infinity()), weights);
  }
  for (int64_t i = 0; i < kinds;) {
    int64_t end = i + 1;
    while (end < n && list[end] == list[i]) ++end;
    const int64_t ties = TiesToReach(base, weights[i], end - i, target);
    if (ties > 0) return {list[i], ties, true};
    base += static_cast<double>(end - i) * weights[i];
    i = end;
  }
  return {list[n - 1], n, false};
}

}  // namespace

Cut SelectCut(const SamplingKernels& kernels, const WeightCall* weigh, float* list, int64_t n,
              double target) {
  double base = 0;  // measure of the values above those in the list
  while (n > kSortMax) {
    float low, high;
    kernels.range(list, n, &low, &high);
    if (low == high) break;
    // Both sides get a value each time. -inf is a side of its own.
    float middle = 0.5f * low + 0.5f * high;
    if (low == -std::numeric_limits<float>::infinity()) {
      middle = std::numeric_limits<float>::lowest();
    } else if (!(middle > low)) {
      middle = high;
    }
    const double above = MeasureAtLeast(kernels, weigh, list, n, middle);
    if (base + above >= target) {
      n = kernels.take_at_least(list, n, middle, list);
    } else {
      base += above;
      n = kernels.take_below(list, n, middle, list);
    }
  }
  return CutOfShort(kernels, weigh, list, n, base, target);
}

}  // namespace sluice::cpu
