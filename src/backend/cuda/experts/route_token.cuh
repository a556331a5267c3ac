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

// Writes the token's experts and weights. `ranks`: RouteBytes() of shared memory, of the warp.
__device__ inline void RouteToken(const RouteExpertsParams& p, int64_t token, uint32_t* ranks,
                                  int lane) {
  constexpr int kEach = kRouteTopKMax / 32;  // choices of a lane: lane, lane + 32
  const float* logits = p.logits + token * p.logits_stride;
  float largest = -INFINITY, sum = 0.0f;
  if (p.sigmoid == 0) {
    for (int e = lane; e < p.experts; e += 32) largest = fmaxf(largest, logits[e]);
    largest = WarpMax(largest);
    for (int e = lane; e < p.experts; e += 32) sum += expf(logits[e] - largest);
    sum = WarpSum(sum);
  }
  for (int e = lane; e < p.experts; e += 32) {
    float score = logits[e];
    if (p.sigmoid != 0) score = 1.0f / (1.0f + expf(-score));
    if (p.by_softmax != 0) score = expf(score - largest) / sum;
    const float key = p.bias != nullptr ? score + p.bias[e] : score;
    ranks[e] = Rank(isnan(key) ? -INFINITY : key);
  }
  __syncwarp();
  uint32_t out = OutsideGroups(p, ranks, ranks + p.experts, lane);
  int taken[kEach] = {};
  for (int i = 0; i < p.top_k; ++i) {
    const int e = BestOf(ranks, p.experts, out, lane);
    out |= BitOf(e, lane);
#pragma unroll
    for (int c = 0; c < kEach; ++c) taken[c] = i == lane + 32 * c ? e : taken[c];
  }
  float scores[kEach];
#pragma unroll
  for (int c = 0; c < kEach; ++c) {
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
  for (int c = 0; c < kEach; ++c) {
    const int i = lane + 32 * c;
    if (i >= p.top_k) continue;
    p.ids[token * p.ids_stride + i] = taken[c];
    const float weight = scores[c] / divisor * p.scale;
    p.weights[token * p.weights_stride + i] =
        p.scales == nullptr ? weight : weight * p.scales[taken[c]];
  }
}

}  // namespace sluice::cuda
