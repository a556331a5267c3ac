// Activations, gated or alone, and the soft cap: a thread has eight numbers of a row. What makes a
// gate sparse: a thread block has a row.
#include "backend/cuda/activation/gates.cuh"
#include "backend/cuda/activation/params.h"
#include "backend/cuda/simt/group.cuh"
#include "backend/cuda/simt/rehearsal.cuh"

namespace sluice::cuda {
namespace {

// The row and the first column of this thread's group; false when there is none.
__device__ bool TakeGroup(int64_t rows, int64_t columns, int64_t* row, int64_t* first) {
  const int64_t groups = (columns + kGroup - 1) / kGroup;
  const int64_t index = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  *row = index / groups;
  *first = index % groups * kGroup;
  return *row < rows;
}

template <class T>
__device__ void GatedActivation(const GatedActivationParams& p) {
  int64_t token, mine;
  const bool there = TakeGroup(p.tokens, p.width, &token, &mine);
  const T* gate_row = static_cast<const T*>(p.gate_up) + token * p.gate_up_stride;
  bool rehearses = FewBlocks() && p.wide != 0;
  LetNextBegin();
#pragma unroll 1
  for (;; rehearses = false) {
    if (!rehearses) WaitForInputs();
    if (!there) return;
    const int64_t first = rehearses ? 0 : mine;
    float gate[kGroup], up[kGroup];
    LoadGroup(rehearses ? OnStage<const T>() : gate_row, first, p.width, p.wide != 0, gate);
    LoadGroup(rehearses ? OnStage<const T>() : gate_row + p.width, first, p.width, p.wide != 0, up);
#pragma unroll
    for (int i = 0; i < kGroup; ++i)
      gate[i] = ActivateGate(p.kind, gate[i] * p.gate_scale, up[i]) * p.out_scale;
    T* out = rehearses ? OnStage<T>() : static_cast<T*>(p.out) + token * p.out_stride;
    StoreGroup(out, first, p.width, p.wide != 0, gate);
    if (!rehearses) return;
  }
}

template <class T>
__device__ void PlainActivation(const PlainActivationParams& p) {
  int64_t token, first;
  if (!TakeGroup(p.tokens, p.width, &token, &first)) return;
  T* x = static_cast<T*>(p.x) + token * p.stride;
  float values[kGroup];
  LoadGroup<T>(x, first, p.width, p.wide != 0, values);
#pragma unroll
  for (int i = 0; i < kGroup; ++i) values[i] = Activate(p.kind, values[i]);
  StoreGroup(x, first, p.width, p.wide != 0, values);
}

template <class T>
__device__ void SoftCap(const SoftCapParams& p) {
  int64_t row, first;
  if (!TakeGroup(p.rows, p.columns, &row, &first)) return;
  T* x = static_cast<T*>(p.x) + row * p.stride;
  float values[kGroup];
  LoadGroup<T>(x, first, p.columns, p.wide != 0, values);
#pragma unroll
  for (int i = 0; i < kGroup; ++i) values[i] = p.cap * tanhf(values[i] / p.cap);
  StoreGroup(x, first, p.columns, p.wide != 0, values);
}

template <class T>
__device__ void GaussianTopK(const TopKParams& p) {
  __shared__ float shared[32];
  T* x = static_cast<T*>(p.x) + blockIdx.x * p.stride;
  const auto width = static_cast<float>(p.width);
  float sum = 0.0f, squares = 0.0f;
  for (int64_t i = threadIdx.x; i < p.width; i += blockDim.x) sum += ToFloat(x[i]);
  const float mean = BlockSum(sum, shared) / width;
  for (int64_t i = threadIdx.x; i < p.width; i += blockDim.x) {
    const float centered = ToFloat(x[i]) - mean;
    squares = fmaf(centered, centered, squares);
  }
  const float cutoff = p.deviations * sqrtf(BlockSum(squares, shared) / width);
  for (int64_t i = threadIdx.x; i < p.width; i += blockDim.x) {
    const float above = ToFloat(x[i]) - mean - cutoff;
    x[i] = FromFloat<T>(above < 0.0f ? 0.0f : above);
  }
}

}  // namespace

#define SLUICE_ACTIVATION(name, type)                                                         \
  extern "C" __global__ void any_f32_gated_activation_##name(const GatedActivationParams p) { \
    GatedActivation<type>(p);                                                                 \
  }                                                                                           \
  extern "C" __global__ void any_f32_plain_activation_##name(const PlainActivationParams p) { \
    WaitForInputs();                                                                          \
    PlainActivation<type>(p);                                                                 \
  }                                                                                           \
  extern "C" __global__ void any_f32_soft_cap_##name(const SoftCapParams p) {                 \
    WaitForInputs();                                                                          \
    SoftCap<type>(p);                                                                         \
  }                                                                                           \
  extern "C" __global__ void any_f32_gaussian_top_k_##name(const TopKParams p) {              \
    WaitForInputs();                                                                          \
    GaussianTopK<type>(p);                                                                    \
  }
SLUICE_ACTIVATION(f32, float)
SLUICE_ACTIVATION(f16, __half)
SLUICE_ACTIVATION(bf16, __nv_bfloat16)

}  // namespace sluice::cuda
