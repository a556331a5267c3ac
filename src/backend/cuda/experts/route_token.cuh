// The experts of a token, found by one warp: lane l has experts l, l + 32 and so on, and a bit for
// each that says whether it is out of the choice.
#pragma once

#include <cstdint>

#include "backend/cuda/experts/params.h"
#include "backend/cuda/simt/group.cuh"

namespace sluice::cuda {

// A number that grows with the key and is above 0; equal keys have the same. The largest of a warp
// is found by one instruction.
__device__ __forceinline__ uint32_t Rank(float key) {
  const uint32_t bits = __float_as_uint(key + 0.0f);  // zero has no sign
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
// The key of a rank.
__device__ __forceinline__ float KeyOf(uint32_t rank) {
  return __uint_as_float((rank >> 31) != 0 ? rank & 0x7fffffffu : ~rank);
}

// The index of the highest of `ranks` whose bit of `out` is not set, of equals the first; the same
// in every lane.
__device__ __forceinline__ int BestOf(const uint32_t* ranks, int count, uint32_t out, int lane) {
  uint32_t best = 0;
  int index = 0;
  for (int i = 0, at = lane; at < count; ++i, at += 32) {
    if ((out >> i & 1) != 0 || ranks[at] <= best) continue;
    best = ranks[at];
    index = at;
  }
  const uint32_t highest = __reduce_max_sync(~0u, best);
  return static_cast<int>(
      __reduce_min_sync(~0u, best == highest ? static_cast<uint32_t>(index) : ~0u));
}
// The bit of `index`, in the lane that has it.
__device__ __forceinline__ uint32_t BitOf(int index, int lane) {
  return index % 32 == lane ? 1u << index / 32 : 0u;
}

// The sum of the two largest of the keys with these ranks, or the largest alone.
__device__ __forceinline__ float GroupKey(const uint32_t* ranks, int count, bool alone) {
  float first = -INFINITY, second = -INFINITY;
  for (int i = 0; i < count; ++i) {
    const float key = KeyOf(ranks[i]);
    if (key > first) {
      second = first;
      first = key;
    } else if (key > second) {
      second = key;
    }
  }
  const float sum = count > 1 && !alone ? first + second : first;
  return isnan(sum) ? -INFINITY : sum;
}

// The bits of the lane's experts whose group takes no part.
__device__ inline uint32_t OutsideGroups(const RouteExpertsParams& p, const uint32_t* ranks,
                                         uint32_t* group_ranks, int lane) {
  if (p.groups == 1) return 0;
  const int size = p.experts / p.groups;
  for (int g = lane; g < p.groups; g += 32)
    group_ranks[g] = Rank(GroupKey(ranks + g * size, size, p.sigmoid == 0));
  __syncwarp();
  uint32_t kept = 0, outside = ~0u;
  for (int n = 0; n < p.groups_kept; ++n) {
    const int g = BestOf(group_ranks, p.groups, kept, lane);
    kept |= BitOf(g, lane);
    for (int i = 0, at = lane; at < p.experts; ++i, at += 32) {
      if (at / size == g) outside &= ~(1u << i);
    }
  }
  return outside;
}

// What an expert is compared by. `largest` and `sum`: of the softmax over all.
__device__ __forceinline__ uint32_t RankOf(const RouteExpertsParams& p, int expert, float logit,
                                           float largest, float sum) {
  float score = logit;
  if (p.sigmoid != 0) score = 1.0f / (1.0f + expf(-score));
  if (p.by_softmax != 0) score = expf(score - largest) / sum;
  const float key = p.bias != nullptr ? score + p.bias[expert] : score;
  return Rank(isnan(key) ? -INFINITY : key);
}

constexpr int kRouteChoices = kRouteTopKMax / 32;  // of a lane: lane, lane + 32

// Writes the experts that were taken and their weights.
__device__ __forceinline__ void WriteRoute(const RouteExpertsParams& p, int64_t token,
                                           const int (&taken)[kRouteChoices], float largest,
                                           float sum, int lane) {
  const float* logits = p.logits + token * p.logits_stride;
  float scores[kRouteChoices];
#pragma unroll
  for (int c = 0; c < kRouteChoices; ++c) {
    const float logit = logits[taken[c]];
    scores[c] = p.sigmoid != 0 ? 1.0f / (1.0f + expf(-logit)) : expf(logit - largest) / sum;
  }
  float divisor = 1.0f;
  if (p.renormalize != 0) {
    divisor = 0.0f;  // in the order of the choices
    for (int i = 0; i < p.top_k; ++i)
      divisor += __shfl_sync(~0u, i < 32 ? scores[0] : scores[1], i % 32);
    divisor += 1e-20f;
  }
#pragma unroll
  for (int c = 0; c < kRouteChoices; ++c) {
    const int i = lane + 32 * c;
    if (i >= p.top_k) continue;
    p.ids[token * p.ids_stride + i] = taken[c];
    const float weight = scores[c] / divisor * p.scale;
    p.weights[token * p.weights_stride + i] =
        p.scales == nullptr ? weight : weight * p.scales[taken[c]];
  }
}

// The same of up to 32 * kEach experts in one group, whose ranks stay in registers.
template <int kEach>
__device__ __forceinline__ void RouteFew(const RouteExpertsParams& p, int64_t token, int lane) {
  const float* logits = p.logits + token * p.logits_stride;
  float logit[kEach], largest = -INFINITY, sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    logit[i] = lane + 32 * i < p.experts ? logits[lane + 32 * i] : -INFINITY;
  if (p.sigmoid == 0) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) largest = fmaxf(largest, logit[i]);
    largest = WarpMax(largest);
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (lane + 32 * i < p.experts) sum += expf(logit[i] - largest);
    sum = WarpSum(sum);
  }
  uint32_t ranks[kEach];  // 0, below all others: taken, or no expert
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int expert = lane + 32 * i;
    ranks[i] = expert < p.experts ? RankOf(p, expert, logit[i], largest, sum) : 0;
  }
  int taken[kRouteChoices] = {};
#pragma unroll 1
  for (int choice = 0; choice < p.top_k; ++choice) {
    uint32_t best = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) best = max(best, ranks[i]);
    const uint32_t highest = __reduce_max_sync(~0u, best);
    uint32_t first = ~0u;  // of equals
#pragma unroll
    for (int i = kEach - 1; i >= 0; --i)
      first = ranks[i] == highest ? static_cast<uint32_t>(lane + 32 * i) : first;
    const auto expert = static_cast<int>(__reduce_min_sync(~0u, first));
#pragma unroll
    for (int i = 0; i < kEach; ++i) ranks[i] = expert == lane + 32 * i ? 0 : ranks[i];
#pragma unroll
    for (int c = 0; c < kRouteChoices; ++c) taken[c] = choice == lane + 32 * c ? expert : taken[c];
  }
  WriteRoute(p, token, taken, largest, sum, lane);
}

// Writes the token's experts and weights. `ranks`: RouteBytes() of shared memory, of the warp.
__device__ inline void RouteToken(const RouteExpertsParams& p, int64_t token, uint32_t* ranks,
                                  int lane) {
  if (p.groups == 1 && p.experts <= 128) return RouteFew<4>(p, token, lane);
  if (p.groups == 1 && p.experts <= 256) return RouteFew<8>(p, token, lane);
  const float* logits = p.logits + token * p.logits_stride;
  float largest = -INFINITY, sum = 0.0f;
  if (p.sigmoid == 0) {
    for (int e = lane; e < p.experts; e += 32) largest = fmaxf(largest, logits[e]);
    largest = WarpMax(largest);
    for (int e = lane; e < p.experts; e += 32) sum += expf(logits[e] - largest);
    sum = WarpSum(sum);
  }
  for (int e = lane; e < p.experts; e += 32) ranks[e] = RankOf(p, e, logits[e], largest, sum);
  __syncwarp();
  uint32_t out = OutsideGroups(p, ranks, ranks + p.experts, lane);
  int taken[kRouteChoices] = {};
  for (int i = 0; i < p.top_k; ++i) {
    const int e = BestOf(ranks, p.experts, out, lane);
    out |= BitOf(e, lane);
#pragma unroll
    for (int c = 0; c < kRouteChoices; ++c) taken[c] = i == lane + 32 * c ? e : taken[c];
  }
  WriteRoute(p, token, taken, largest, sum, lane);
}

}  // namespace sluice::cuda
