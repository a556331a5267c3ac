// What the experts of a token made of it, added up in the order in which it chose them: a thread
// has eight numbers of a token.
#include "backend/cuda/experts/params.h"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/group.cuh"

namespace sluice::cuda {
namespace {

template <class T>
__device__ void Combine(const CombineExpertsParams& p) {
  const int64_t first = (int64_t{blockIdx.x} * kCombineThreads + threadIdx.x) * kGroup;
  const int64_t token = blockIdx.y;
  if (first >= p.width) return;
  const float* weights = p.weights + token * p.weights_stride;
  const int32_t* places = p.places + token * p.places_stride;
  float sum[kGroup] = {};
#pragma unroll 4
  for (int i = 0; i < p.top_k; ++i) {
    const float* y = p.y + places[i] * p.y_stride;
    const float weight = weights[i];
    float values[kGroup];
    LoadGroup(y, first, p.width, p.wide_y != 0, values);
#pragma unroll
    for (int c = 0; c < kGroup; ++c) sum[c] = __fmaf_rn(weight, values[c], sum[c]);
  }
  if (p.residual != nullptr) {
    float values[kGroup];
    LoadGroup(static_cast<const T*>(p.residual) + token * p.residual_stride, first, p.width,
              p.wide != 0, values);
#pragma unroll
    for (int c = 0; c < kGroup; ++c) sum[c] = __fadd_rn(sum[c], values[c]);
  }
  StoreGroup(static_cast<T*>(p.out) + token * p.out_stride, first, p.width, p.wide != 0, sum);
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
