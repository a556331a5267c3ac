// The arithmetic of sampling, the same in every implementation, so that all of them give the same
// tokens and the same log-probs to the bit. Pure functions; any thread may call.
//
// A token's weight is e^x for x = (logit - max) * WeightScale(divisor), computed in F32 by a
// fixed polynomial, and zero below kWeightFloor. It is then rounded to a multiple of a grid so
// coarse that any sum of weights is exact in F64: the order of summation, and with it blocks,
// threads and vector widths, cannot change a result. The grid is 2^-37 for 65,535 tokens, against
// 1 for the likeliest token; what it drops is below the error of an F32 exponential.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/philox.h"
#include "ops/sampling.h"

namespace sluice::ops {

// Below e^-40 every grid rounds to zero.
inline constexpr float kWeightFloor = -40.0f;

// What a log-prob is reported as when a probability is zero: JSON has no infinity, and clients of
// OpenAI's API know this value.
inline constexpr float kZeroProbability = -9999.0f;

// What the row's logits are divided by before their softmax; the raw ones' divisor is 1. At
// temperature 0 (greedy) it is 1, too, which the processed log-prob then has.
inline float LogitDivisor(const SampleRow& row) {
  return row.temperature == 0.0f ? 1.0f : row.temperature;
}

// Finite, so that the likeliest token's 0 stays 0 at a vanishing divisor.
inline float WeightScale(float divisor) {
  return std::min(1.0f / divisor, std::numeric_limits<float>::max());
}

// (w + WeightGrid) - WeightGrid rounds w in [0, 1] to a multiple of 2^(b - 53), where 2^b exceeds
// the vocabulary: that is the spacing of F64 around 1.5 * 2^(b - 1).
inline double WeightGrid(int64_t vocab) {
  return std::ldexp(1.5, static_cast<int>(std::bit_width(static_cast<uint64_t>(vocab))) - 1);
}

// e^x for kWeightFloor <= x <= 0: x = n ln 2 + r with ln 2 in two parts, and the series of e^r - 1
// to r^7. `fma` rounds once whatever the machine has.
inline float WeightExp(float x) {
  constexpr float kRound = 0x1.8p23f;  // adding it leaves no fraction
  const float n = (x * 1.44269504088896341f + kRound) - kRound;
  float r = std::fma(n, -0.693145751953125f, x);
  r = std::fma(n, -1.42860682030941723212e-6f, r);
  float p = std::fma(r, 1.0f / 5040, 1.0f / 720);
  p = std::fma(p, r, 1.0f / 120);
  p = std::fma(p, r, 1.0f / 24);
  p = std::fma(p, r, 1.0f / 6);
  p = std::fma(p, r, 0.5f);
  const float power = std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
  return (std::fma(p, r * r, r) + 1.0f) * power;
}

// The smallest x that min-p keeps. The logarithm is rounded from double precision, in which
// libraries that differ in its last bit still give the same float.
inline float FloorOf(const SampleRow& params) {
  if (!(params.min_p > 0.0f)) return kWeightFloor;
  const double log = std::log(static_cast<double>(params.min_p));
  return std::clamp(static_cast<float>(log), kWeightFloor, 0.0f);
}

// Whether only the fewest likeliest tokens are kept that have this share of the weights.
inline bool LimitsTopP(const SampleRow& params) { return params.top_p < 1.0f; }
// The sum of weights, of `total`, at which these are enough.
inline double TopPTarget(const SampleRow& params, double total) { return params.top_p * total; }

// Whether tokens are kept by their probability: by top-p or min-p.
inline bool LimitsByShare(const SampleRow& params) {
  return LimitsTopP(params) || params.min_p > 0.0f;
}

inline bool LimitsTopK(const SampleRow& params, int64_t vocab) {
  return params.top_k > 0 && params.top_k < vocab;
}

// The row's lot for this purpose.
inline double LotOf(const SampleRow& row, DrawPurpose purpose) {
  return UniformDraw(row.seed, row.choice, row.position, purpose);
}

// The drawn token is the first, by id, at which the running sum of the kept weights exceeds this.
inline double DrawAim(double total, double uniform) {
  const double aim = total * uniform;
  return aim < total ? aim : std::nextafter(total, 0.0);
}

inline float LogProb(float logit, float max, float divisor, double log_total) {
  const float logprob =
      static_cast<float>((static_cast<double>(logit) - max) / divisor - log_total);
  return std::isfinite(logprob) ? logprob : kZeroProbability;
}

// A logit that is no number after its edit is one that can't be drawn.
inline float Edited(const LogitEdit& edit, float logit) {
  logit += edit.bias;
  logit = logit > 0 ? logit / edit.repetition : logit * edit.repetition;
  logit -= edit.subtract;
  return edit.banned || std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit;
}

// What the penalties of a row make of an id with this word of counts, in addition to its edit.
inline void AddPenalties(const SampleRow& row, uint32_t count, LogitEdit* edit) {
  if (count == 0) return;
  edit->repetition *= row.repetition_penalty;
  const uint32_t answer = count & ~kInPrompt;
  if (answer > 0) {
    edit->subtract += row.presence_penalty + row.frequency_penalty * static_cast<float>(answer);
  }
}

// Whether id a comes before id b in descending order of value, ties by ascending id.
struct Before {
  const float* values;
  bool operator()(int32_t a, int32_t b) const {
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  }
};

// Applies the edits and penalties of a row to `logits`, a copy of its raw ones.
void EditLogits(const Sample::Desc& desc, const Sample::Args& args, int64_t row, float* logits);

// All outputs of a row whose raw logits are degenerate.
void ReportDegenerate(const Sample::Desc& desc, const Sample::Args& args, int64_t row,
                      int32_t argmax);

}  // namespace sluice::ops
