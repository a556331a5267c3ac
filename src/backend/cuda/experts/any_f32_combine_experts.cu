// What the experts of a token made of it, added up in the order in which it chose them: a thread
// has four numbers of a token, and asks for those of eight choices before it adds the first.
#include "backend/cuda/experts/params.h"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/element.cuh"

namespace sluice::cuda {
namespace {

template <class T>
struct alignas(4 * sizeof(T)) Four {
  T values[kCombineEach];
};

// Zeros from `count` on. `wide`: rows begin where four numbers may be read at once.
template <class T>
__device__ __forceinline__ void LoadFour(const T* row, int64_t first, int64_t count, bool wide,
                                         float (&out)[kCombineEach]) {
  if (wide && first + kCombineEach <= count) {
    const auto four = *reinterpret_cast<const Four<T>*>(row + first);
#pragma unroll
    for (int i = 0; i < kCombineEach; ++i) out[i] = ToFloat(four.values[i]);
    return;
  }
#pragma unroll
  for (int i = 0; i < kCombineEach; ++i)
    out[i] = first + i < count ? ToFloat(row[first + i]) : 0.0f;
}
template <class T>
__device__ __forceinline__ void StoreFour(T* row, int64_t first, int64_t count, bool wide,
                                          const float (&values)[kCombineEach]) {
  if (wide && first + kCombineEach <= count) {
    Four<T> four;
#pragma unroll
    for (int i = 0; i < kCombineEach; ++i) four.values[i] = FromFloat<T>(values[i]);
    *reinterpret_cast<Four<T>*>(row + first) = four;
    return;
  }
#pragma unroll
  for (int i = 0; i < kCombineEach; ++i) {
    if (first + i < count) row[first + i] = FromFloat<T>(values[i]);
  }
}

template <class T>
__device__ void Combine(const CombineExpertsParams& p) {
  constexpr int kAhead = 8;
  const int64_t first = (int64_t{blockIdx.x} * kCombineThreads + threadIdx.x) * kCombineEach;
  const int64_t token = blockIdx.y;
  if (first >= p.width) return;
  const float* const weights = p.weights + token * p.weights_stride;
  const int32_t* const places = p.places + token * p.places_stride;
  float added[kCombineEach] = {}, sum[kCombineEach] = {};
  if (p.residual != nullptr) {
    LoadFour(static_cast<const T*>(p.residual) + token * p.residual_stride, first, p.width,
             p.wide != 0, added);
  }
  for (int begin = 0; begin < p.top_k; begin += kAhead) {
    float values[kAhead][kCombineEach], weight[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int choice = min(begin + i, p.top_k - 1);
      weight[i] = weights[choice];
      LoadFour(p.y + places[choice] * p.y_stride, first, p.width, p.wide_y != 0, values[i]);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (begin + i >= p.top_k) break;
#pragma unroll
      for (int c = 0; c < kCombineEach; ++c) sum[c] = __fmaf_rn(weight[i], values[i][c], sum[c]);
    }
  }
  if (p.residual != nullptr) {
#pragma unroll
    for (int c = 0; c < kCombineEach; ++c) sum[c] = __fadd_rn(sum[c], added[c]);
  }
  StoreFour(static_cast<T*>(p.out) + token * p.out_stride, first, p.width, p.wide != 0, sum);
}

}  // namespace

#define SLUICE_COMBINE_EXPERTS(name, type)                                                  \
  extern "C" __global__ void any_f32_combine_experts_##name(const CombineExpertsParams p) { \
    WaitForInputs();                                                                        \
    Combine<type>(p);                                                                       \
  }
SLUICE_COMBINE_EXPERTS(f32, float)
SLUICE_COMBINE_EXPERTS(f16, __half)
SLUICE_COMBINE_EXPERTS(bf16, __nv_bfloat16)

}  // namespace sluice::cuda
