// VerifyCost: what steps cost that verify drafts, beside those that verify none, as measured while
// they run. Sizes of the batch are told apart by powers of two. For one thread.
#pragma once

#include <array>
#include <cstdint>

#include "speculate/draft_length.h"

namespace sluice::engine {

// What decodes in a step.
struct Decoding {
  int32_t sequences = 0;
  int32_t context = 0;  // KV tokens of a sequence, in the mean
};

class VerifyCost {
 public:
  // A step took `seconds` in which `batch` decoded and nothing else was computed, with `drafts` of
  // all of its sequences. Drafts of few of them say nothing of what those of all cost. Gives
  // whether so many drafts were measured some times before: what they gain then is what they were
  // chosen for. REQUIRES: batch.sequences > 0, seconds > 0.
  bool Observe(const Decoding& batch, int32_t drafts, double seconds);

  // A step took `seconds` for so many tokens, prompts among them. REQUIRES: both are above 0.
  void ObserveTokens(int32_t tokens, double seconds);

  // Of the next step, if it decodes that. What was never measured is as dear as what was
  // measured of fewer or more drafts says, in a straight line, but one draft more or less than was
  // measured is hoped to be cheaper, so that it is tried: time grows with what a device computes
  // at once, in steps. Where nothing was measured, drafts of a few sequences are nearly free. Now
  // and then, at first, and where contexts are much longer or shorter than when one was measured,
  // drafts cost more than they can gain, so that a step without them is measured too.
  speculate::DraftCosts Next(const Decoding& batch);

  // The same where the step computes prompts as well: a device that is busy with these has no time
  // to spare, so each draft costs as much as a token of theirs.
  speculate::DraftCosts NextBesidePrompts(const Decoding& batch);

  // Seconds of a step without drafts; 0: none was measured.
  double Plain(int32_t sequences) { return SizeOf(sequences).plain; }

 private:
  static constexpr int kSizes = 14;  // up to 4,096 sequences, and more
  // Steps with drafts after which one without is measured again, since contexts grow and machines
  // have neighbours; and steps that are given for it while prefills are in its way.
  static constexpr int kStale = 256, kPatience = 16;
  // Measurements of a number of drafts before it is known well.
  static constexpr int kTrials = 4;

  struct Size {
    double plain = 0;     // seconds without drafts; 0: not measured
    int32_t context = 0;  // with which it was measured
    int since_plain = kStale;
    int asked = 0;  // steps that were to have no drafts, since then
    std::array<double, limits::kDraftTokensMax> extra = {};   // relative, by drafts less 1
    std::array<uint8_t, limits::kDraftTokensMax> known = {};  // measurements, up to kTrials
  };
  Size& SizeOf(int32_t sequences);
  static bool IsOther(const Size& size, const Decoding& batch);
  double PlainNear(int32_t sequences);
  static void HopeBesideKnown(const Size& size, speculate::DraftCosts* costs);

  std::array<Size, kSizes> sizes_;
  double token_ = 0;  // seconds of one among many; 0: not measured
};

}  // namespace sluice::engine
