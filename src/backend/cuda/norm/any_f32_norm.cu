// RMSNorm and LayerNorm, with the addition to the residual before: a thread block has one row.
#include "backend/cuda/norm/params.h"
#include "backend/cuda/simt/group.cuh"

namespace sluice::cuda {
namespace {

template <class T>
__device__ void NormRow(const NormParams& p) {
  __shared__ float shared[32];
  const int64_t token = blockIdx.x, n = p.hidden;
  const int64_t begin = int64_t{threadIdx.x} * kGroup, step = int64_t{blockDim.x} * kGroup;
  const bool wide = p.wide != 0;
  const T* x = static_cast<const T*>(p.x) + token * p.x_stride;
  T* residual = static_cast<T*>(p.residual) + token * p.residual_stride;
  const T* source = p.residual != nullptr ? residual : x;  // of the norm
  float row[kGroup], sum = 0.0f;

  // The sum of the row for its mean, or of its squares. A thread reads again only what it wrote.
  for (int64_t first = begin; first < n; first += step) {
    LoadGroup(x, first, n, wide, row);
    if (p.residual != nullptr) {
      float old[kGroup];
      LoadGroup<T>(residual, first, n, wide, old);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) row[i] = ToFloat(FromFloat<T>(row[i] + old[i]));
      StoreGroup(residual, first, n, wide, row);
    }
#pragma unroll
    for (int i = 0; i < kGroup; ++i) sum += p.center != 0 ? row[i] : row[i] * row[i];
  }
  sum = BlockSum(sum, shared);
  float mean = 0.0f;
  if (p.center != 0) {
    mean = sum / static_cast<float>(n);
    float squares = 0.0f;
    for (int64_t first = begin; first < n; first += step) {
      LoadGroup(source, first, n, wide, row);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        const float centered = first + i < n ? row[i] - mean : 0.0f;
        squares += centered * centered;
      }
    }
    sum = BlockSum(squares, shared);
  }
  const float inverse = 1.0f / sqrtf(sum / static_cast<float>(n) + p.eps);
  T* out = static_cast<T*>(p.out) + token * p.out_stride;
  for (int64_t first = begin; first < n; first += step) {
    float weight[kGroup], bias[kGroup] = {};
    LoadGroup(source, first, n, wide, row);
    LoadGroup(p.weight, first, n, false, weight);
    if (p.bias != nullptr) LoadGroup(p.bias, first, n, false, bias);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) row[i] = (row[i] - mean) * inverse * weight[i] + bias[i];
    StoreGroup(out, first, n, wide, row);
  }
}

}  // namespace

#define SLUICE_NORM(name, type) \
  extern "C" __global__ void any_f32_norm_##name(const NormParams p) { NormRow<type>(p); }
SLUICE_NORM(f32, float)
SLUICE_NORM(f16, __half)
SLUICE_NORM(bf16, __nv_bfloat16)

}  // namespace sluice::cuda
