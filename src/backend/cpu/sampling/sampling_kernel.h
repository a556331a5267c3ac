// The passes of kernels.h over any F32x16 `V` and its doubles `D`.
#pragma once

#include "backend/cpu/sampling/kernels.h"
#include "backend/cpu/simd/math.h"

namespace sluice::cpu {

template <class V, class D>
struct SamplingKernel {
  static constexpr int kLanes = 16;
  static constexpr float kInf = __builtin_inff();

  // Calls body(i, lanes, mask of the lanes) for each vector of [0, n).
  template <class Body>
  static void ForVectors(const float* x, int64_t n, const Body& body) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) body(i, V::Load(x + i), 0xffffu);
    const int rest = static_cast<int>(n - i);
    if (rest > 0) body(i, V::LoadFirst(x + i, rest), (1u << rest) - 1u);
  }

  static LogitScan Scan(const float* x, int64_t n, float* maxima) {
    const V lowest = V::Set1(-kInf), inf = V::Set1(kInf);
    float max = -kInf;
    uint32_t good = 0xffffu;  // NaN and +inf are not below +inf
    for (int64_t begin = 0; begin < n; begin += kSamplingChunk) {
      V chunk = lowest;
      if (begin + kSamplingChunk <= n) {
#pragma GCC unroll 4
        for (int64_t i = begin; i < begin + kSamplingChunk; i += kLanes) {
          const V value = V::Load(x + i);
          good &= V::Above(inf, value);
          chunk = V::Max(value, chunk);
        }
      } else {
        ForVectors(x + begin, n - begin, [&](int64_t, V value, uint32_t lanes) {
          value = V::Choose(lanes, value, lowest);
          good &= V::Above(inf, value);
          chunk = V::Max(value, chunk);
        });
      }
      const float largest = chunk.Largest();
      maxima[begin / kSamplingChunk] = largest;
      if (largest > max) max = largest;
    }
    return {max, good != 0xffffu};
  }

  static int64_t AfterEqual(const float* x, int64_t n, float value, int64_t nth) {
    const V wanted = V::Set1(value);
    for (int64_t i = 0; i < n; i += kLanes) {
      uint32_t mask = i + kLanes <= n
                          ? V::Equal(V::Load(x + i), wanted)
                          : V::Equal(V::LoadFirst(x + i, static_cast<int>(n - i)), wanted) &
                                ((1u << (n - i)) - 1u);
      const int found = __builtin_popcount(mask);
      if (found < nth) {
        nth -= found;
        continue;
      }
      for (; nth > 1; --nth) mask &= mask - 1;
      return i + __builtin_ctz(mask) + 1;
    }
    return 0;
  }

  template <uint32_t (*How)(V, V)>
  static int64_t Count(const float* x, int64_t n, float bound) {
    const V limit = V::Set1(bound);
    int64_t count = 0;
    ForVectors(x, n, [&](int64_t, V value, uint32_t lanes) {
      count += __builtin_popcount(How(value, limit) & lanes);
    });
    return count;
  }

  static uint32_t Below(V value, V bound) { return V::Above(bound, value); }

  template <uint32_t (*How)(V, V)>
  static int64_t Take(const float* x, int64_t n, float bound, float* out) {
    const V limit = V::Set1(bound);
    int64_t count = 0, i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const V value = V::Load(x + i);
      const uint32_t mask = How(value, limit);
      if (mask == 0) continue;
      value.Compress(out + count, mask);
      count += __builtin_popcount(mask);
    }
    for (; i < n; ++i) {
      const float value = x[i];
      if (How(V::Set1(value), limit) != 0) out[count++] = value;
    }
    return count;
  }

  static void Range(const float* x, int64_t n, float* min, float* max) {
    V low = V::Set1(kInf), high = V::Set1(-kInf);
    ForVectors(x, n, [&](int64_t, V value, uint32_t lanes) {
      low = V::Min(V::Choose(lanes, value, low), low);
      high = V::Max(V::Choose(lanes, value, high), high);
    });
    *min = -(V::Zero() - low).Largest();
    *max = high.Largest();
  }

  // The lanes from i on that a cut keeps.
  static uint32_t Kept(V value, V cut, int64_t i, int64_t ties_end) {
    if (i + kLanes <= ties_end) return V::AtLeast(value, cut);
    if (i >= ties_end) return V::Above(value, cut);
    return V::Above(value, cut) | (V::AtLeast(value, cut) & ((1u << (ties_end - i)) - 1u));
  }

  static int64_t KeptIds(const float* x, int64_t n, float cut, int64_t ties_end, int32_t* ids,
                         int64_t limit) {
    const V bound = V::Set1(cut);
    int64_t count = 0;
    ForVectors(x, n, [&](int64_t i, V value, uint32_t lanes) {
      uint32_t mask = Kept(value, bound, i, ties_end) & lanes;
      for (; mask != 0 && count < limit; mask &= mask - 1) {
        ids[count++] = static_cast<int32_t>(i + __builtin_ctz(mask));
      }
    });
    return count;
  }

  static void CopyAllowed(const float* x, const uint32_t* words, int64_t n, float* out) {
    const V banned = V::Set1(-kInf);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      V::Choose(words[i / 32] >> (i % 32) & 0xffffu, V::Load(x + i), banned).Store(out + i);
    }
    for (; i < n; ++i) out[i] = (words[i / 32] >> (i % 32) & 1u) != 0 ? x[i] : -kInf;
  }

  // Calls sink(i, sixteen weights) for every vector that keeps something.
  template <class Sink>
  static void ForWeights(const WeightCall& call, const Sink& sink) {
    const V max = V::Set1(call.max), scale = V::Set1(call.scale), floor = V::Set1(call.floor);
    const V cut = V::Set1(call.cut), least = V::Set1(-40.0f);
    const D grid = D::Set1(call.grid);
    ForVectors(call.logits, call.n, [&](int64_t i, V value, uint32_t lanes) {
      const uint32_t kept = Kept(value, cut, i, call.ties_end) & lanes;
      if (kept == 0) return;
      const V x = (value - max) * scale;
      const uint32_t mask = kept & V::AtLeast(x, floor);
      if (mask == 0) return;
      V n;
      const V p = SmallExpMinus1(SplitByLn2(V::Max(x, least), &n)) + V::Set1(1.0f);
      const V weight = V::Choose(mask, p * V::PowerOfTwo(n), V::Zero());
      sink(i, (D::From(weight) + grid) - grid);
    });
  }

  static double Total(const WeightCall& call) {
    D sum = D::Zero();
    ForWeights(call, [&](int64_t, D weight) { sum = sum + weight; });
    return sum.Sum();
  }

  static void Weights(const WeightCall& call, double* out) {
    for (int64_t i = 0; i < call.n; ++i) out[i] = 0.0;
    ForWeights(call, [&](int64_t i, D weight) {
      double lanes[kLanes];
      weight.Store(lanes);
      for (int64_t j = 0; j < kLanes && i + j < call.n; ++j) out[i + j] = lanes[j];
    });
  }

  static constexpr SamplingKernels Table() {
    return {&Scan,
            &AfterEqual,
            &Count<&V::AtLeast>,
            &Count<&V::Above>,
            &Take<&V::AtLeast>,
            &Take<&Below>,
            &Range,
            &KeptIds,
            &CopyAllowed,
            &Total,
            &Weights};
  }
};

}  // namespace sluice::cpu
