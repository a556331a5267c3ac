#include "speculate/draft_length.h"

#include <algorithm>

namespace sluice::speculate {
namespace {

// Of one more draft. What a sequence writes changes faster than what all of them do.
constexpr float kRate = 1.0F / 8, kRateOfAll = 1.0F / 64;
// As many drafts as what a program begins with stands for, and until kRateOfAll holds.
constexpr int kBegun = 8, kToldMax = 64 - kBegun;

}  // namespace

void Acceptance::Start(const Acceptance& others) {
  right_ = others.right_;
  contested_right_ = others.contested_right_;
  aside_right_ = others.aside_right_;
  count_ = seen_ = 0;
}

void Acceptance::Propose(int32_t at, int32_t grade, std::span<const int32_t> drafts,
                         std::span<const int32_t> asides) {
  if (seen_ < count_ || drafts.empty()) return;
  std::copy(drafts.begin(), drafts.end(), drafts_.begin());
  asides_.fill(-1);
  std::copy(asides.begin(), asides.end(), asides_.begin());
  at_ = at;
  grade_ = grade;
  count_ = static_cast<int32_t>(drafts.size());
  seen_ = 0;
}

void Acceptance::Observe(std::span<const int32_t> tokens, Acceptance* others) {
  const auto size = static_cast<int32_t>(tokens.size());
  while (seen_ < count_ && at_ + seen_ < size) {
    const bool right = tokens[at_ + seen_] == drafts_[seen_];
    Learn(grade_, seen_, right, kRate);
    others->LearnOfAll(grade_, seen_, right);
    if (asides_[seen_] >= 0) {
      const bool found = tokens[at_ + seen_] == asides_[seen_];
      LearnContested(right, found, kRate);
      others->LearnContested(right, found, kRateOfAll);
    }
    seen_ = right ? seen_ + 1 : count_;
  }
}

void Acceptance::Verified(int32_t grade, int32_t drafted, int32_t right, Acceptance* others) {
  for (int32_t place = 0; place < drafted && place <= right; ++place) {
    Learn(grade, place, place < right, kRate);
    others->LearnOfAll(grade, place, place < right);
  }
}

void Acceptance::Learn(int32_t grade, int32_t place, bool right, float rate) {
  float& share = right_[grade][place];
  share += rate * ((right ? 1.0F : 0.0F) - share);
}

void Acceptance::LearnOfAll(int32_t grade, int32_t place, bool right) {
  uint8_t& told = told_[grade][place];
  Learn(grade, place, right, std::max(kRateOfAll, 1.0F / static_cast<float>(kBegun + told)));
  if (told < kToldMax) ++told;
}

void Acceptance::LearnContested(bool right, bool aside, float rate) {
  contested_right_ += rate * ((right ? 1.0F : 0.0F) - contested_right_);
  aside_right_ += rate * ((aside ? 1.0F : 0.0F) - aside_right_);
}

int32_t Acceptance::Choose(int32_t grade, int32_t count, const DraftCosts& costs) const {
  int32_t best = 0;
  float most = kDraftGainMin, all_right = 1, tokens = 1;
  for (int32_t i = 0; i < count; ++i) {
    all_right *= right_[grade][i];
    tokens += all_right;
    const float gain = tokens / (1 + costs[i]);
    if (gain <= most) continue;
    most = gain;
    best = i + 1;
  }
  return best;
}

}  // namespace sluice::speculate
