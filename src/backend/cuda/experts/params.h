// What the kernels around the products of experts are given. Shared by host and device; strides in
// elements.
#pragma once

#include <cstdint>

namespace sluice::cuda {

inline constexpr unsigned kRouteWarps = 4;  // a token each
inline constexpr int kRouteTopKMax = 64;    // experts of a token

struct RouteExpertsParams {
  const float* logits;
  const float* bias;    // or null
  const float* scales;  // of experts, or null
  int32_t* ids;
  float* weights;
  int64_t logits_stride, ids_stride, weights_stride, tokens;
  int32_t experts, top_k, groups, groups_kept;
  float scale;
  uint32_t sigmoid, renormalize;
  uint32_t by_softmax;  // experts are compared by their softmax, not by the logit
};
// Of a token, in shared memory: what experts and groups are compared by.
constexpr unsigned RouteBytes(int experts, int groups) {
  return static_cast<unsigned>(experts + groups) * 4;
}

inline constexpr unsigned kFakeBalanceThreads = 128;  // a choice each

struct FakeBalanceExpertsParams {
  int32_t* ids;
  float* weights;
  int64_t ids_stride, weights_stride, tokens;
  int32_t experts, top_k;
};

inline constexpr unsigned kMapThreads = 128;  // a choice each

struct MapExpertsParams {
  const int32_t* token_ids;
  const int32_t* positions;
  const int32_t* map;
  int32_t* ids;
  uint32_t* counts;        // or null
  const int32_t* counted;  // or null
  int64_t ids_stride, tokens;
  int32_t experts, top_k;
};

inline constexpr unsigned kGroupWarps = 8;  // of the thread block that an expert has

struct GroupExpertsParams {
  const int32_t* ids;
  int32_t* starts;
  int32_t* tokens;
  int32_t* places;
  uint32_t* counts;        // or null
  const int32_t* counted;  // or null
  int64_t ids_stride, places_stride;
  int32_t count;  // tokens * top_k
  int32_t experts, top_k;
};

inline constexpr unsigned kScaleThreads = 128;  // a group of eight numbers each

struct ScaleExpertsParams {
  void* x;
  const float* weights;
  const int32_t* places;
  int64_t x_stride, weights_stride, places_stride, width;
  int32_t top_k;
  uint32_t wide;  // rows of x begin at multiples of 16 bytes
};
// Behind it: the weights become one.
struct ResetWeightsParams {
  float* weights;
  int64_t weights_stride, tokens;
  int32_t top_k;
};

inline constexpr unsigned kCombineThreads = 128;
inline constexpr int kCombineEach = 4;  // numbers of a thread

struct CombineExpertsParams {
  const float* y;
  const float* weights;
  const int32_t* places;
  const void* residual;  // or null; may be out
  void* out;
  int64_t y_stride, weights_stride, places_stride, residual_stride, out_stride, width;
  int32_t top_k;
  uint32_t wide_y, wide;  // rows of y, and of residual and out, begin at multiples of 16 bytes
};

}  // namespace sluice::cuda
