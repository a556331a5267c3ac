#include "engine/draft_gain.h"

#include <algorithm>
#include <bit>

#include "speculate/draft_length.h"

namespace sluice::engine {
namespace {

// Drafts are judged by so many steps, and of small batches by more: what one sequence draws in a
// step is chance.
constexpr int32_t kSteps = 16, kDraws = 256;
// Steps of the first rest and of the longest. A trial is kSteps long, of which a part is lost.
constexpr int32_t kRestMin = 256, kRestMax = 8192;
// What trials may cost: such a share of the steps between them.
constexpr double kLossMax = 1.0 / 128;

}  // namespace

int DraftGain::IndexOf(int32_t sequences) {
  return std::clamp(static_cast<int>(std::bit_width(static_cast<uint32_t>(sequences))), 1, kSizes) -
         1;
}

void DraftGain::Observe(int32_t sequences, bool drafted, int64_t tokens, double seconds,
                        double plain) {
  Size& size = sizes_[IndexOf(sequences)];
  if (size.rest > 0) --size.rest;
  if (!drafted || plain <= 0) return;
  ++size.steps;
  size.draws += sequences;
  size.tokens += static_cast<double>(tokens);
  size.expected += sequences * seconds / plain;
  if (size.steps < kSteps || size.draws < kDraws) return;
  if (size.tokens >= speculate::kDraftGainMin * size.expected) {
    size.next_rest = 0;
  } else {
    // Steps without drafts that the trial's time would have been enough for, beside what it drew.
    const double lost = (size.expected - size.tokens) * size.steps / size.draws;
    const auto worth = static_cast<int32_t>(std::clamp(lost / kLossMax, 0.0, double{kRestMax}));
    size.rest = std::max({kRestMin, size.next_rest, worth});
    size.next_rest = std::min(2 * size.rest, kRestMax);
  }
  size.steps = size.draws = 0;
  size.tokens = size.expected = 0;
}

}  // namespace sluice::engine
