// What an expert's first product gave for a token, times the expert's weight: a thread has eight
// numbers of a token, in the row of each of its choices. The weights become one by a kernel that
// runs behind, when all thread blocks have read them.
#include "backend/cuda/experts/params.h"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/group.cuh"

namespace sluice::cuda {
namespace {

template <class T>
__device__ void Scale(const ScaleExpertsParams& p) {
  const int64_t first = (int64_t{blockIdx.x} * kScaleThreads + threadIdx.x) * kGroup;
  const int64_t token = blockIdx.y;
  if (first >= p.width) return;
  for (int i = 0; i < p.top_k; ++i) {
    const float weight = p.weights[token * p.weights_stride + i];
    T* x = static_cast<T*>(p.x) + p.places[token * p.places_stride + i] * p.x_stride;
    float values[kGroup];
    LoadGroup(x, first, p.width, p.wide != 0, values);
#pragma unroll
    for (int c = 0; c < kGroup; ++c) values[c] *= weight;
    StoreGroup(x, first, p.width, p.wide != 0, values);
  }
}

}  // namespace

#define SLUICE_SCALE_EXPERTS(name, type)                                                \
  extern "C" __global__ void any_f32_scale_experts_##name(const ScaleExpertsParams p) { \
    WaitForInputs();                                                                    \
    Scale<type>(p);                                                                     \
  }
SLUICE_SCALE_EXPERTS(f32, float)
SLUICE_SCALE_EXPERTS(f16, __half)
SLUICE_SCALE_EXPERTS(bf16, __nv_bfloat16)

extern "C" __global__ void any_f32_reset_weights(const ResetWeightsParams p) {
  WaitForInputs();
  const int64_t i = int64_t{blockIdx.x} * kScaleThreads + threadIdx.x;
  if (i < p.tokens * p.top_k) p.weights[i / p.top_k * p.weights_stride + i % p.top_k] = 1.0f;
}

}  // namespace sluice::cuda
