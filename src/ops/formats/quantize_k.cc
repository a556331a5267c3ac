#include "ops/formats/quantize_k.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace sluice::ops {

namespace {

constexpr int kSuperBlock = 256;
constexpr int kSubBlocksMax = 16;
// Candidates for a sub-block's step: the range of its values divided by the number of codes, that
// number changed by up to one in tenths.
constexpr int kStepCandidates = 21;
constexpr float kCandidateStep = 0.1f;
// Rounds of choosing codes for the block's scales and scales for its codes. Later ones gain
// nothing.
constexpr int kRounds = 3;
constexpr float kF16Max = 65504.0f;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Range {
  int low, high;
};

Range ScaleRange(DType dtype) {
  switch (dtype) {
    case DType::kQ2_K:
      return {0, 15};
    case DType::kQ3_K:
      return {-32, 31};
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 63};
    default:
      CHECK(dtype == DType::kQ6_K, Name(dtype), " is no K format");
      return {-128, 127};
  }
}

// The nearest integer of [low, high]; NaN gives low. Adding 1.5 * 2^23 rounds, and lets the
// compiler work on several elements at once, which lrintf does not.
inline float Round(float value, float low, float high) {
  constexpr float kShift = 12582912.0f;
  value = value > low ? value : low;
  value = value < high ? value : high;
  return (value + kShift) - kShift;
}

uint16_t FiniteF16(float value) { return F32ToF16(std::clamp(value, -kF16Max, kF16Max)); }

// value = scale * q - minimum, q an integer.
struct Line {
  float scale = 0, minimum = 0;
};

struct SubBlock {
  const float* x;
  const float* weight;
  int size;
  float low, high;  // of q
};

// The best line through 0: for each candidate of the step the codes it asks for, and for these
// codes the scale of the least squares.
Line FitScale(const SubBlock& sub) {
  float extreme = 0;
  for (int j = 0; j < sub.size; ++j) {
    if (std::fabs(sub.x[j]) > std::fabs(extreme)) extreme = sub.x[j];
  }
  if (extreme == 0) return {};
  Line best;
  float best_gain = 0;
  for (int c = 0; c < kStepCandidates; ++c) {
    // The extreme goes to the lowest code, which lies one step farther out than the highest.
    const float change = kCandidateStep * static_cast<float>(c - kStepCandidates / 2);
    const float inverse = (sub.low + change) / extreme;
    float xq = 0, qq = 0;
    for (int j = 0; j < sub.size; ++j) {
      const float q = Round(sub.x[j] * inverse, sub.low, sub.high);
      xq += sub.weight[j] * sub.x[j] * q;
      qq += sub.weight[j] * q * q;
    }
    if (qq > 0 && xq * xq > best_gain * qq) {
      best_gain = xq * xq / qq;
      best.scale = xq / qq;
    }
  }
  return best;
}

// The line of the least squares for codes that `inverse` and `low` give.
Line LeastSquares(const SubBlock& sub, float inverse, float low, float* q) {
  float w = 0, wq = 0, wqq = 0, wx = 0, wxq = 0;
  for (int j = 0; j < sub.size; ++j) {
    q[j] = Round((sub.x[j] - low) * inverse, sub.low, sub.high);
    w += sub.weight[j];
    wq += sub.weight[j] * q[j];
    wqq += sub.weight[j] * q[j] * q[j];
    wx += sub.weight[j] * sub.x[j];
    wxq += sub.weight[j] * sub.x[j] * q[j];
  }
  const float determinant = w * wqq - wq * wq;
  if (!(determinant > 0)) return {};
  const Line line{(w * wxq - wx * wq) / determinant, (wq * wxq - wqq * wx) / determinant};
  // The formats subtract their minimum.
  if (line.minimum < 0) return {wxq / wqq, 0};
  return line;
}

// The best line with a minimum, over the same candidates.
Line FitScaleAndMinimum(const SubBlock& sub) {
  float low = 0, high = sub.x[0];
  for (int j = 0; j < sub.size; ++j) {
    low = std::min(low, sub.x[j]);
    high = std::max(high, sub.x[j]);
  }
  Line best{0, -low};
  if (!(high > low)) return best;
  float best_error = kInfinity;
  float q[kSuperBlock];
  for (int c = 0; c < kStepCandidates; ++c) {
    const float change = kCandidateStep * static_cast<float>(c - kStepCandidates / 2);
    const Line line = LeastSquares(sub, (sub.high + change) / (high - low), low, q);
    if (!(line.scale > 0)) continue;
    float error = 0;
    for (int j = 0; j < sub.size; ++j) {
      const float off = line.scale * q[j] - line.minimum - sub.x[j];
      error += sub.weight[j] * off * off;
    }
    if (error < best_error) {
      best_error = error;
      best = line;
    }
  }
  return best;
}

// One block on its way into a format.
class SuperBlock {
 public:
  SuperBlock(const BlockFormat& format, const float* in)
      : format_(format),
        sub_blocks_(format.block / format.sub),
        range_(ScaleRange(format.dtype)),
        low_(static_cast<float>(-format.offset)),
        high_(static_cast<float>((1 << format.bits) - 1 - format.offset)) {
    for (int i = 0; i < kSuperBlock; ++i) x_[i] = std::isfinite(in[i]) ? in[i] : 0.0f;
    for (int i = 0; i < sub_blocks_; ++i) {
      const float* x = x_ + i * format_.sub;
      float squares = 0;
      for (int j = 0; j < format_.sub; ++j) squares += x[j] * x[j];
      const float typical = std::sqrt(squares / static_cast<float>(format_.sub));
      float* weight = weight_ + i * format_.sub;
      for (int j = 0; j < format_.sub; ++j) weight[j] = typical + std::fabs(x[j]);
      lines_[i] = format_.minimum ? FitScaleAndMinimum(Sub(i)) : FitScale(Sub(i));
    }
  }

  void Fit(BlockParts* parts) {
    ScaleToLimits(parts);
    float error = Encode(parts);
    for (int round = 1; round < kRounds; ++round) {
      BlockParts next = *parts;
      if (!FitBlockScales(&next)) return;
      const float next_error = Encode(&next);
      if (!(next_error < error)) return;
      *parts = next;
      error = next_error;
    }
  }

 private:
  SubBlock Sub(int i) const {
    return {x_ + i * format_.sub, weight_ + i * format_.sub, format_.sub, low_, high_};
  }

  // d and m so that the largest scale and minimum take the last integer.
  void ScaleToLimits(BlockParts* parts) const {
    float scale = 0, minimum = 0;
    for (int i = 0; i < sub_blocks_; ++i) {
      if (std::fabs(lines_[i].scale) > std::fabs(scale)) scale = lines_[i].scale;
      minimum = std::max(minimum, lines_[i].minimum);
    }
    const int limit = range_.low < 0 ? range_.low : range_.high;
    parts->d = FiniteF16(scale / static_cast<float>(limit));
    parts->m = format_.minimum ? FiniteF16(minimum / static_cast<float>(range_.high)) : 0;
  }

  // Chooses scales, minimums and codes for the block's d and m; gives the weighted squared error.
  float Encode(BlockParts* parts) const {
    float error = 0;
    for (int i = 0; i < sub_blocks_; ++i) error += EncodeSub(i, parts);
    return error;
  }

  // Tries the integers around the wished scale and minimum.
  float EncodeSub(int i, BlockParts* parts) const {
    const float d = F16ToF32(parts->d), m = F16ToF32(parts->m);
    const int scale = Nearest(lines_[i].scale, d, range_);
    const Range mins = format_.minimum ? Range{0, range_.high} : Range{0, 0};
    const int minimum = Nearest(lines_[i].minimum, m, mins);
    float best = kInfinity;
    int best_scale = scale, best_minimum = minimum;
    for (int s = std::max(scale - 1, range_.low); s <= std::min(scale + 1, range_.high); ++s) {
      for (int n = std::max(minimum - 1, mins.low); n <= std::min(minimum + 1, mins.high); ++n) {
        const float error = ErrorOf(Sub(i), {d * static_cast<float>(s), m * static_cast<float>(n)});
        if (error < best) {
          best = error;
          best_scale = s;
          best_minimum = n;
        }
      }
    }
    parts->scales[i] = static_cast<int8_t>(best_scale);
    parts->mins[i] = static_cast<int8_t>(best_minimum);
    WriteCodes(i, {d * static_cast<float>(best_scale), m * static_cast<float>(best_minimum)},
               parts);
    return best;
  }

  static int Nearest(float wish, float unit, Range range) {
    if (unit == 0) return std::clamp(0, range.low, range.high);
    return static_cast<int>(
        Round(wish / unit, static_cast<float>(range.low), static_cast<float>(range.high)));
  }

  static float Inverse(float scale) { return scale != 0 ? 1.0f / scale : 0.0f; }

  static float ErrorOf(const SubBlock& sub, Line line) {
    const float inverse = Inverse(line.scale);
    float error = 0;
    for (int j = 0; j < sub.size; ++j) {
      const float q = Round((sub.x[j] + line.minimum) * inverse, sub.low, sub.high);
      const float off = line.scale * q - line.minimum - sub.x[j];
      error += sub.weight[j] * off * off;
    }
    return error;
  }

  void WriteCodes(int i, Line line, BlockParts* parts) const {
    const SubBlock sub = Sub(i);
    const float inverse = Inverse(line.scale);
    uint8_t* codes = parts->codes + i * format_.sub;
    for (int j = 0; j < sub.size; ++j) {
      const float q = Round((sub.x[j] + line.minimum) * inverse, sub.low, sub.high);
      codes[j] = static_cast<uint8_t>(static_cast<int>(q) + format_.offset);
    }
  }

  // d and m of the least squares for the scales, minimums and codes chosen; false when these do not
  // determine them.
  bool FitBlockScales(BlockParts* parts) const {
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    for (int e = 0; e < kSuperBlock; ++e) {
      const int i = e / format_.sub;
      const double a = static_cast<double>(parts->scales[i]) * (parts->codes[e] - format_.offset);
      const double b = format_.minimum ? -parts->mins[i] : 0.0;
      const double weight = weight_[e];
      aa += weight * a * a;
      ab += weight * a * b;
      bb += weight * b * b;
      ax += weight * a * x_[e];
      bx += weight * b * x_[e];
    }
    if (!(aa > 0)) return false;
    double d = ax / aa, m = 0;
    const double determinant = aa * bb - ab * ab;
    if (bb > 0) {
      if (!(determinant > 1e-9 * aa * bb)) return false;
      d = (ax * bb - bx * ab) / determinant;
      m = (bx * aa - ax * ab) / determinant;
      if (!(d > 0 && m >= 0)) return false;
    }
    parts->d = FiniteF16(static_cast<float>(d));
    parts->m = FiniteF16(static_cast<float>(m));
    return true;
  }

  const BlockFormat& format_;
  const int sub_blocks_;
  const Range range_;
  const float low_, high_;  // of code - offset
  float x_[kSuperBlock];
  float weight_[kSuperBlock];
  Line lines_[kSubBlocksMax];  // each sub-block's own best, before its scales are rounded
};

}  // namespace

void FitSuperBlock(const BlockFormat& format, const float* in, BlockParts* parts) {
  CHECK(format.sub_scales && format.block == kSuperBlock, Name(format.dtype));
  SuperBlock(format, in).Fit(parts);
}

}  // namespace sluice::ops
