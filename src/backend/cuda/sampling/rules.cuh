// The arithmetic of ops/sampling_rules.h on the device, to the bit. Weights are integers here:
// multiples of their grid, so that sums are exact in any order.
#pragma once

#include <cstdint>

#include "backend/cuda/simt/philox.cuh"
#include "ops/sample_row.h"

namespace sluice::cuda {

inline constexpr float kWeightFloor = -40.0f;
inline constexpr float kZeroProbability = -9999.0f;

__device__ inline float LogitDivisor(const ops::SampleRow& row) {
  return row.temperature == 0.0f ? 1.0f : row.temperature;
}

__device__ inline float WeightScale(float divisor) {
  return fminf(__fdiv_rn(1.0f, divisor), 3.402823466e+38f);
}

__device__ inline float FloorOf(const ops::SampleRow& row) {
  if (!(row.min_p > 0.0f)) return kWeightFloor;
  const float floor = static_cast<float>(log(static_cast<double>(row.min_p)));
  return fminf(fmaxf(floor, kWeightFloor), 0.0f);
}

__device__ inline bool LimitsTopP(const ops::SampleRow& row) { return row.top_p < 1.0f; }

__device__ inline bool LimitsByShare(const ops::SampleRow& row) {
  return LimitsTopP(row) || row.min_p > 0.0f;
}

__device__ inline double LotOf(const ops::SampleRow& row, uint32_t purpose) {
  return UniformDraw(row.seed, row.choice, row.position, purpose);
}

__device__ inline float WeightExp(float x) {
  constexpr float kRound = 0x1.8p23f;
  const float n = __fsub_rn(__fadd_rn(__fmul_rn(x, 1.44269504088896341f), kRound), kRound);
  float r = __fmaf_rn(n, -0.693145751953125f, x);
  r = __fmaf_rn(n, -1.42860682030941723212e-6f, r);
  float p = __fmaf_rn(r, 1.0f / 5040, 1.0f / 720);
  p = __fmaf_rn(p, r, 1.0f / 120);
  p = __fmaf_rn(p, r, 1.0f / 24);
  p = __fmaf_rn(p, r, 1.0f / 6);
  p = __fmaf_rn(p, r, 0.5f);
  const float power = __int_as_float((static_cast<int>(n) + 127) << 23);
  return __fmul_rn(__fadd_rn(__fmaf_rn(p, __fmul_rn(r, r), r), 1.0f), power);
}

// The grid of a vocabulary below 2^bits: weights are multiples of 2^(bits - 53).
struct Grid {
  int bits;
  double add;

  __device__ explicit Grid(int64_t vocab) {
    bits = 64 - __clzll(vocab);
    add = scalbn(1.5, bits - 1);
  }
  __device__ double unit() const { return scalbn(1.0, bits - 53); }
};

// The weights of a row's logits over one divisor.
struct Weigher {
  float max, scale;
  Grid grid;

  __device__ float x(float logit) const { return __fmul_rn(__fsub_rn(logit, max), scale); }
  __device__ uint64_t operator()(float logit) const {
    const float at = x(logit);
    if (!(at >= kWeightFloor)) return 0;
    if (grid.bits == 1) return uint64_t{1} << 52;  // a lone token
    // Both lie between 1.5 and 2 times a power of two, and their last bit is the unit.
    const double sum = __dadd_rn(static_cast<double>(WeightExp(at)), grid.add);
    return static_cast<uint64_t>(__double_as_longlong(sum) - __double_as_longlong(grid.add));
  }
};

// The first integer that a sum of weights above the aim of a draw may be.
__device__ inline uint64_t DrawTarget(uint64_t total, double uniform) {
  const double all = static_cast<double>(total);
  double aim = __dmul_rn(all, uniform);
  if (!(aim < all)) aim = __longlong_as_double(__double_as_longlong(all) - 1);
  return static_cast<uint64_t>(aim) + 1;
}

// The least sum of weights that reaches top_p of the total; the likeliest token always counts.
__device__ inline uint64_t TopPTarget(const ops::SampleRow& row, uint64_t total) {
  const double target = __dmul_rn(static_cast<double>(row.top_p), static_cast<double>(total));
  const double least = ceil(target);
  return least > 1.0 ? static_cast<uint64_t>(least) : 1;
}

// The probabilities of ops/rejection_rules.h, in steps of 2^-63.
inline constexpr uint64_t kCertainty = uint64_t{1} << 63;

class Shares {
 public:
  Shares() = default;
  // REQUIRES: total > 0. (2^127 - 1) / (total << shift), a bit at a time.
  __device__ explicit Shares(uint64_t total) {
    shift_ = __clzll(static_cast<int64_t>(total));
    const uint64_t divisor = total << shift_;
    uint64_t rest = kCertainty - 1;
    for (int bit = 0; bit < 64; ++bit) {
      const bool carry = rest >= kCertainty;
      rest = rest << 1 | 1;
      const bool fits = carry || rest >= divisor;
      reciprocal_ = reciprocal_ << 1 | (fits ? 1 : 0);
      if (fits) rest -= divisor;
    }
  }
  __device__ uint64_t operator()(uint64_t weight) const {
    return __umul64hi(weight << shift_, reciprocal_);
  }

 private:
  int shift_ = 0;
  uint64_t reciprocal_ = 0;
};

// A number below `total`, even for an even `uniform` in [0, 1).
__device__ inline uint64_t ShareBelow(uint64_t total, double uniform) {
  return __umul64hi(total, static_cast<uint64_t>(uniform * 0x1p53) << 11);
}

__device__ inline float LogProb(float logit, float max, float divisor, double log_total) {
  const double x = __ddiv_rn(__dsub_rn(logit, max), static_cast<double>(divisor));
  const float logprob = static_cast<float>(__dsub_rn(x, log_total));
  return isfinite(logprob) ? logprob : kZeroProbability;
}

__device__ inline float Edited(const ops::LogitEdit& edit, float logit) {
  logit = __fadd_rn(logit, edit.bias);
  logit = logit > 0 ? __fdiv_rn(logit, edit.repetition) : __fmul_rn(logit, edit.repetition);
  logit = __fsub_rn(logit, edit.subtract);
  return edit.banned || isnan(logit) ? -INFINITY : logit;
}

__device__ inline void AddPenalties(const ops::SampleRow& row, uint32_t count,
                                    ops::LogitEdit* edit) {
  if (count == 0) return;
  edit->repetition = __fmul_rn(edit->repetition, row.repetition_penalty);
  const uint32_t answer = count & ~ops::kInPrompt;
  if (answer == 0) return;
  const float often = __fmul_rn(row.frequency_penalty, static_cast<float>(answer));
  edit->subtract = __fadd_rn(edit->subtract, __fadd_rn(row.presence_penalty, often));
}

// Bits that ascend with the number; no NaN. Zeros of either sign must be +0.
__device__ inline uint32_t OrderedBits(float x) {
  const uint32_t bits = __float_as_uint(x);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline float FromOrderedBits(uint32_t bits) {
  return __uint_as_float((bits & 0x80000000u) != 0 ? bits & 0x7fffffffu : ~bits);
}

}  // namespace sluice::cuda
