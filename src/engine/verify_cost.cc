#include "engine/verify_cost.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace sluice::engine {
namespace {

// Of one more step; and how far one step, which anything may have held up, can be from the rest.
constexpr double kRate = 0.25, kOutlier = 0.5;
// By which a price that is not paid gets less with a step, so that it is looked at again.
constexpr double kForget = 1.0 / 1024;

double Moved(double value, double sample) {
  const double low = value * (1 - kOutlier), high = value * (1 + kOutlier);
  return value + kRate * (std::clamp(sample, low, high) - value);
}

}  // namespace

VerifyCost::Size& VerifyCost::SizeOf(int32_t sequences) {
  const int width = std::bit_width(static_cast<uint32_t>(sequences));
  return sizes_[std::clamp(width, 1, kSizes) - 1];
}

void VerifyCost::Observe(int32_t sequences, int32_t drafts, double seconds) {
  Size& size = SizeOf(sequences);
  if (drafts == 0) {
    size.plain = size.plain == 0 ? seconds : Moved(size.plain, seconds);
    size.since_plain = size.asked = 0;
  } else {
    ++size.since_plain;
  }
  for (double& extra : size.extra) extra *= 1 - kForget;
  if (drafts == 0 || size.plain == 0) return;
  const int32_t each = std::clamp((drafts + sequences / 2) / sequences, 1, limits::kDraftTokensMax);
  const int32_t at = each - 1;
  const double total = seconds / size.plain;
  size.extra[at] = std::max(0.0, (size.known[at] ? Moved(1 + size.extra[at], total) : total) - 1);
  size.known[at] = true;
}

speculate::DraftCosts VerifyCost::Next(int32_t sequences) {
  Size& size = SizeOf(sequences);
  speculate::DraftCosts costs = {};
  if (size.since_plain >= kStale) {
    if (++size.asked <= kPatience) {
      costs.fill(std::numeric_limits<float>::infinity());
      return costs;
    }
    size.since_plain = size.asked = 0;
  }
  double low = 0;
  int last = 0;  // the number of drafts whose cost is `low`
  for (int at = 0; at < limits::kDraftTokensMax; ++at) {
    if (!size.known[at]) continue;
    const double high = std::max(low, size.extra[at]);
    for (int count = last + 1; count <= at + 1; ++count) {
      costs[count - 1] = static_cast<float>(low + (high - low) * (count - last) / (at + 1 - last));
    }
    low = high;
    last = at + 1;
  }
  for (int count = last + 1; count <= limits::kDraftTokensMax && last > 0; ++count) {
    costs[count - 1] = static_cast<float>(low * count / last);
  }
  return costs;
}

}  // namespace sluice::engine
