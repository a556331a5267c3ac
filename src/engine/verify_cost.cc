#include "engine/verify_cost.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>

namespace sluice::engine {
namespace {

// Of one more step; and how far one step, which anything may have held up, can be from the rest.
constexpr double kRate = 0.25, kOutlier = 0.5;
// What a draft of each of so many sequences costs as long as nobody knows.
constexpr double kGuessed = 1.0 / 128, kGuessedMax = 0.5;
// By which a price that is not paid gets less with a step, so that it is looked at again.
constexpr double kForget = 1.0 / 1024;
// By which what a token takes in large steps gets more with a step, as machines have neighbours.
constexpr double kTokenGrowth = 1.0 / 128;
// Tokens by which contexts may have changed, beside an eighth: of a sequence, at least, and of all.
constexpr int32_t kContextRoom = 32, kContextRoomOfAll = 512;

double Moved(double value, double sample) {
  const double low = value * (1 - kOutlier), high = value * (1 + kOutlier);
  return value + kRate * (std::clamp(sample, low, high) - value);
}

}  // namespace

VerifyCost::Size& VerifyCost::SizeOf(int32_t sequences) {
  const int width = std::bit_width(static_cast<uint32_t>(sequences));
  return sizes_[std::clamp(width, 1, kSizes) - 1];
}

// What a step reads grows with the contexts of all its sequences.
bool VerifyCost::IsOther(const Size& size, const Decoding& batch) {
  const int32_t room = std::max(kContextRoom, kContextRoomOfAll / std::max(batch.sequences, 1));
  return std::abs(batch.context - size.context) > room + size.context / 8;
}

bool VerifyCost::Observe(const Decoding& batch, int32_t drafts, double seconds) {
  const int32_t sequences = batch.sequences;
  Size& size = SizeOf(sequences);
  if (drafts == 0) {
    size.plain = size.plain == 0 || IsOther(size, batch) ? seconds : Moved(size.plain, seconds);
    size.context = batch.context;
    size.since_plain = size.asked = 0;
  } else {
    ++size.since_plain;
  }
  for (double& extra : size.extra) extra *= 1 - kForget;
  if (2 * drafts < sequences || drafts == 0 || size.plain == 0) return true;
  const int32_t each = std::clamp((drafts + sequences / 2) / sequences, 1, limits::kDraftTokensMax);
  const int32_t at = each - 1;
  const double total = seconds / size.plain;
  size.extra[at] =
      std::max(0.0, (size.known[at] > 0 ? Moved(1 + size.extra[at], total) : total) - 1);
  if (size.known[at] == kTrials) return true;
  ++size.known[at];
  return false;
}

speculate::DraftCosts VerifyCost::Next(const Decoding& batch) {
  const int32_t sequences = batch.sequences;
  Size& size = SizeOf(sequences);
  speculate::DraftCosts costs = {};
  if (size.since_plain >= kStale || IsOther(size, batch)) {
    if (++size.asked <= kPatience) {
      costs.fill(std::numeric_limits<float>::infinity());
      return costs;
    }
    size.since_plain = size.asked = 0;
    size.context = batch.context;
  }
  double low = 0;
  int last = 0;  // the number of drafts whose cost is `low`
  for (int at = 0; at < limits::kDraftTokensMax; ++at) {
    if (size.known[at] == 0) continue;
    const double high = std::max(low, size.extra[at]);
    for (int count = last + 1; count <= at + 1; ++count) {
      costs[count - 1] = static_cast<float>(low + (high - low) * (count - last) / (at + 1 - last));
    }
    low = high;
    last = at + 1;
  }
  for (int count = last + 1; count <= limits::kDraftTokensMax; ++count) {
    costs[count - 1] = static_cast<float>(
        last > 0 ? low * count / last : count * std::min(kGuessed * sequences, kGuessedMax));
  }
  HopeBesideKnown(size, &costs);
  return costs;
}

// Small steps take as long for fewer tokens, so it is the least that counts.
void VerifyCost::ObserveTokens(int32_t tokens, double seconds) {
  const double each = seconds / tokens;
  token_ = token_ == 0 ? each : std::min(each, token_ * (1 + kTokenGrowth));
}

// Of the nearest size of which it is known; 0: of none.
double VerifyCost::PlainNear(int32_t sequences) {
  const auto at = static_cast<int>(&SizeOf(sequences) - sizes_.data());
  for (int away = 0; away < kSizes; ++away) {
    for (const int near : {at + away, at - away}) {
      if (near >= 0 && near < kSizes && sizes_[near].plain > 0) return sizes_[near].plain;
    }
  }
  return 0;
}

speculate::DraftCosts VerifyCost::NextBesidePrompts(const Decoding& batch) {
  speculate::DraftCosts costs = Next(batch);
  const double plain = PlainNear(batch.sequences);
  if (plain == 0) return costs;
  for (size_t i = 0; i < costs.size(); ++i) {
    const double drafts = static_cast<double>(i + 1) * batch.sequences;
    costs[i] = std::max(costs[i], static_cast<float>(drafts * token_ / plain));
  }
  return costs;
}

void VerifyCost::HopeBesideKnown(const Size& size, speculate::DraftCosts* costs) {
  float low = 0;  // of the last number that is known
  for (int at = 0; at < limits::kDraftTokensMax; ++at) {
    float& cost = (*costs)[at];
    if (size.known[at] > 0) {
      low = cost;
    } else if (at > 0 && size.known[at - 1] > 0) {
      cost = low;
    } else if (at + 1 < limits::kDraftTokensMax && size.known[at + 1] > 0) {
      cost = (low + cost) / 2;
    }
  }
}

}  // namespace sluice::engine
