// VerifyCost: what steps cost that verify drafts, beside those that verify none, as measured while
// they run. Sizes of the batch are told apart by powers of two. For one thread.
#pragma once

#include <array>
#include <cstdint>

#include "speculate/draft_length.h"

namespace sluice::engine {

class VerifyCost {
 public:
  // A step took `seconds` in which `sequences` decoded and nothing else was computed, with `drafts`
  // of all of them. REQUIRES: sequences > 0, seconds > 0.
  void Observe(int32_t sequences, int32_t drafts, double seconds);

  // Of the next step, if it has as many sequences. What was never measured is as dear as what was
  // measured of fewer or more drafts says, in a straight line; where nothing was, it is free. Now
  // and then, and at first, drafts cost more than they can gain, so that a step without them is
  // measured too.
  speculate::DraftCosts Next(int32_t sequences);

 private:
  static constexpr int kSizes = 14;  // up to 4,096 sequences, and more
  // Steps with drafts after which one without is measured again, since contexts grow and machines
  // have neighbours; and steps that are given for it while prefills are in its way.
  static constexpr int kStale = 128, kPatience = 16;

  struct Size {
    double plain = 0;  // seconds without drafts; 0: not measured
    int since_plain = kStale;
    int asked = 0;  // steps that were to have no drafts, since then
    std::array<double, limits::kDraftTokensMax> extra = {};  // relative, by drafts less 1
    std::array<bool, limits::kDraftTokensMax> known = {};
  };
  Size& SizeOf(int32_t sequences);

  std::array<Size, kSizes> sizes_;
};

}  // namespace sluice::engine
