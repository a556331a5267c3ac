// RMSNorm of each head times SiLU of a gate, or of that product, a warp with one head of one token;
// the product with a gate's sigmoid, and a residual plus the product with that of a row's gate, a
// thread with eight numbers of a row.
#include "backend/cuda/gate/params.h"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/group.cuh"

namespace sluice::cuda {
namespace {

template <class T>
__device__ void GatedNorm(const GatedNormParams& p) {
  const int lane = threadIdx.x % 32;
  const int64_t index = int64_t{blockIdx.x} * kGatedNormWarps + threadIdx.x / 32;
  const int64_t token = index / p.heads, first = index % p.heads * p.head_dim;
  if (token >= p.tokens) return;
  const T* x = static_cast<const T*>(p.x) + token * p.x_stride + first;
  const T* gate = static_cast<const T*>(p.gate) + token * p.gate_stride + first;
  T* out = static_cast<T*>(p.out) + token * p.out_stride + first;
  const bool norm = p.weight != nullptr;
  const float* weight = norm ? p.weight + index % p.heads * p.weight_step : nullptr;
  const auto gate_of = [&](int i) {
    const float g = ToFloat(gate[i]) * p.gate_scale;
    return g / (1.0f + expf(-g));
  };
  const auto x_of = [&](int i) {
    return p.gate_first ? ToFloat(x[i]) * gate_of(i) : ToFloat(x[i]);
  };
  float sum = 0.0f;
  for (int i = lane; i < p.head_dim; i += 32) {
    const float value = x_of(i);
    sum += value * value;
  }
  sum = WarpSum(sum);
  const float inverse = p.out_scale * (norm ? InverseRms(sum, p.head_dim, p.eps) : 1.0f);
  // A lane writes what it alone has read.
  for (int i = lane; i < p.head_dim; i += 32) {
    const float value = x_of(i) * inverse * (norm ? weight[i] : 1.0f);
    out[i] = FromFloat<T>(p.gate_first ? value : value * gate_of(i));
  }
}

template <class T>
__device__ void SigmoidGate(const SigmoidGateParams& p) {
  const int64_t groups = (p.width + kGroup - 1) / kGroup;
  const int64_t index = int64_t{blockIdx.x} * kSigmoidGateThreads + threadIdx.x;
  const int64_t token = index / groups, first = index % groups * kGroup;
  if (token >= p.tokens) return;
  T* x = static_cast<T*>(p.x) + token * p.x_stride;
  const T* gate = static_cast<const T*>(p.gate) + token * p.gate_stride;
  float values[kGroup], gates[kGroup];
  LoadGroup<T>(x, first, p.width, p.wide != 0, values);
  LoadGroup<T>(gate, first, p.width, p.wide != 0, gates);
#pragma unroll
  for (int i = 0; i < kGroup; ++i) values[i] /= 1.0f + expf(-gates[i]);
  StoreGroup(x, first, p.width, p.wide != 0, values);
}

template <class T, class Sum>
__device__ void ScaleAdd(const ScaleAddParams& p) {
  const int64_t groups = (p.width + kGroup - 1) / kGroup;
  const int64_t index = int64_t{blockIdx.x} * kSigmoidGateThreads + threadIdx.x;
  const int64_t token = index / groups, first = index % groups * kGroup;
  if (token >= p.tokens) return;
  const float factor = 1.0f / (1.0f + expf(-p.gate[token * p.gate_stride]));
  float values[kGroup], sums[kGroup];
  LoadGroup<T>(static_cast<const T*>(p.x) + token * p.x_stride, first, p.width, p.wide != 0,
               values);
  LoadGroup<Sum>(static_cast<const Sum*>(p.residual) + token * p.residual_stride, first, p.width,
                 p.wide != 0, sums);
#pragma unroll
  for (int i = 0; i < kGroup; ++i) sums[i] = fmaf(values[i], factor, sums[i]);
  StoreGroup(static_cast<Sum*>(p.out) + token * p.out_stride, first, p.width, p.wide != 0, sums);
}

}  // namespace

#define SLUICE_GATE(name, type)                                                       \
  extern "C" __global__ void any_f32_gated_norm_##name(const GatedNormParams p) {     \
    WaitForInputs();                                                                  \
    GatedNorm<type>(p);                                                               \
  }                                                                                   \
  extern "C" __global__ void any_f32_sigmoid_gate_##name(const SigmoidGateParams p) { \
    WaitForInputs();                                                                  \
    SigmoidGate<type>(p);                                                             \
  }
SLUICE_GATE(f32, float)
SLUICE_GATE(f16, __half)
SLUICE_GATE(bf16, __nv_bfloat16)

#define SLUICE_SCALE_ADD(name, type, sum)                                                    \
  extern "C" __global__ void any_f32_sigmoid_gate_scale_add_##name(const ScaleAddParams p) { \
    WaitForInputs();                                                                         \
    ScaleAdd<type, sum>(p);                                                                  \
  }
SLUICE_SCALE_ADD(f32, float, float)
SLUICE_SCALE_ADD(f16, __half, __half)
SLUICE_SCALE_ADD(bf16, __nv_bfloat16, __nv_bfloat16)
SLUICE_SCALE_ADD(f16_to_f32, __half, float)

}  // namespace sluice::cuda
