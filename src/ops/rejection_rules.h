// Verification of drafts by rejection sampling (Leviathan et al., "Fast inference from transformers
// via speculative decoding", 2023), the same to the bit in every implementation. A draft d that was
// drawn from q is kept with the probability min(1, p(d) / q(d)); else a token is drawn from
// max(p - q, 0). What comes out has the distribution p, whatever q is. Pure functions; any thread
// may call.
//
// Probabilities are whole multiples of 2^-63, each rounded down from its token's weight
// (ops/sampling_rules.h) by integer products alone, so that their sums are exact in any order.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "ops/sampling_rules.h"

namespace sluice::ops {

// A probability of 1.
inline constexpr uint64_t kCertainty = uint64_t{1} << 63;

// The upper 64 bits of the product.
inline uint64_t MultiplyHigh(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>(Wide{a} * b >> 64);
}

// The probabilities of tokens with weights that sum to `total`.
class Shares {
 public:
  // REQUIRES: total > 0
  explicit Shares(uint64_t total) : shift_(std::countl_zero(total)) {
    __extension__ using Wide = unsigned __int128;
    constexpr Wide kMost = (Wide{1} << 127) - 1;
    reciprocal_ = static_cast<uint64_t>(kMost / (total << shift_));
  }
  // REQUIRES: weight <= total
  uint64_t operator()(uint64_t weight) const { return MultiplyHigh(weight << shift_, reciprocal_); }

 private:
  int shift_;
  uint64_t reciprocal_;  // of 2^127
};

// A number below `total`, even for an even `uniform` in [0, 1) of 53 bits; 0 where that is 0.
inline uint64_t ShareBelow(uint64_t total, double uniform) {
  return MultiplyHigh(total, static_cast<uint64_t>(uniform * 0x1p53) << 11);
}

// Weights are whole in these steps.
inline double StepsPerWeight(int64_t vocab) {
  return std::ldexp(1.0, 53 - static_cast<int>(std::bit_width(static_cast<uint64_t>(vocab))));
}

// Whether what the row draws is decided by rejection. REQUIRES: it is in the arrays.
inline bool Rejects(const SampleRow& row, int64_t vocab) {
  return row.draw && row.guess_row != kCompared && !row.greedy() && row.target >= 0 &&
         row.target < vocab;
}

// q of a row that rejects.
class Proposal {
 public:
  // `total(logits, n, largest, divisor)` is the sum of their weights, for n > 0 logits with the
  // largest one `largest`; `scan(logits, n)` has that as .max, and .degenerate.
  template <class Scan, class Total>
  Proposal(const Sample::Args& args, const SampleRow& row, const Scan& scan, const Total& total)
      : draft_(row.target) {
    if (row.guess_row < 0) return;
    const float* const logits = args.guesses.ptr<float>() + row.guess_row * args.guesses.strides[0];
    const int64_t count = args.guesses.dims[1];
    const auto seen = scan(logits, count);
    if (seen.degenerate) return;
    logits_ = logits;
    count_ = count;
    max_ = seen.max;
    const float divisor = LogitDivisor(row);
    scale_ = WeightScale(divisor);
    if (!args.guess_of.empty()) guess_of_ = args.guess_of.ptr<int32_t>();
    shares_ = Shares(ToSteps(total(logits, count, max_, divisor)));
  }

  // The probability of an id of the model's vocabulary.
  uint64_t operator()(int32_t id) const {
    if (logits_ == nullptr) return id == draft_ ? kCertainty : 0;
    const int32_t guess = guess_of_ == nullptr ? id : guess_of_[id];
    if (guess < 0 || guess >= count_) return 0;
    const float x = (logits_[guess] - max_) * scale_;
    if (!(x >= kWeightFloor)) return 0;
    const double grid = WeightGrid(count_);
    return shares_(ToSteps((WeightExp(x) + grid) - grid));
  }

 private:
  uint64_t ToSteps(double weight) const {
    return static_cast<uint64_t>(weight * StepsPerWeight(count_));
  }

  const int32_t draft_;
  const float* logits_ = nullptr;      // null: all is at the draft
  const int32_t* guess_of_ = nullptr;  // null: ids are the same
  int64_t count_ = 0;
  float max_ = 0.0f, scale_ = 1.0f;
  Shares shares_{1};
};

// The token of a row that rejects. `weights` and `draft` are the sum of the weights that the row
// keeps and that of its draft, in steps; each(visit) calls visit(id, weight) for those that are
// kept, by ascending id, until it returns false.
template <class Each>
int32_t DrawByRejection(const SampleRow& row, const Proposal& proposal, uint64_t weights,
                        uint64_t draft, const Each& each) {
  const Shares shares(weights);
  if (ShareBelow(proposal(row.target), LotOf(row, DrawPurpose::kAccept)) < shares(draft))
    return row.target;
  // Where the two are the same but for rounding, nothing is left; then p itself is drawn from.
  for (const bool subtracts : {true, false}) {
    const auto left = [&](int32_t id, uint64_t weight) {
      const uint64_t p = shares(weight), q = subtracts ? proposal(id) : 0;
      return p > q ? p - q : 0;
    };
    uint64_t total = 0;
    each([&](int32_t id, uint64_t weight) {
      total += left(id, weight);
      return true;
    });
    if (total == 0) continue;
    const uint64_t aim = ShareBelow(total, LotOf(row, DrawPurpose::kResidual));
    uint64_t sum = 0;
    int32_t token = 0;
    each([&](int32_t id, uint64_t weight) {
      sum += left(id, weight);
      token = id;
      return sum <= aim;
    });
    return token;
  }
  return row.target;
}

}  // namespace sluice::ops
