// RMSNorm of Q and K heads in place: a warp has one head of one token.
#include "backend/cuda/norm/params.h"
#include "backend/cuda/simt/group.cuh"
#include "backend/cuda/simt/rehearsal.cuh"

namespace sluice::cuda {
namespace {

// `rehearses`: over memory that nobody reads (rehearsal.cuh).
template <class T>
__device__ __forceinline__ void NormHead(const QkNormParams& p, bool rehearses) {
  const int lane = threadIdx.x % 32;
  const int64_t index = int64_t{blockIdx.x} * kQkNormWarps + threadIdx.x / 32;
  const int64_t token = index / p.heads;
  const int head = static_cast<int>(index % p.heads);
  if (token >= p.tokens) return;
  T* values = rehearses ? OnStage<T>()
                        : static_cast<T*>(p.qkv) + token * p.stride + int64_t{head} * p.head_dim;
  const float* weight = head < p.q_heads ? p.q_weight : p.k_weight;
  float sum = 0.0f;
  for (int i = lane; i < p.head_dim; i += 32) {
    const float value = ToFloat(values[i]);
    sum += value * value;
  }
  sum = WarpSum(sum);
  const float inverse = InverseRms(sum, p.head_dim, p.eps);
  for (int i = lane; i < p.head_dim; i += 32)
    values[i] = FromFloat<T>(ToFloat(values[i]) * inverse * weight[i]);
}

template <class T>
__device__ void NormHeads(const QkNormParams& p) {
  bool rehearses = FewBlocks() && p.head_dim * 4 <= static_cast<int>(sizeof(Stage));
  LetNextBegin();
#pragma unroll 1
  for (;; rehearses = false) {
    if (!rehearses) WaitForInputs();
    NormHead<T>(p, rehearses);
    if (!rehearses) return;
  }
}

}  // namespace

#define SLUICE_QK_NORM(name, type) \
  extern "C" __global__ void any_f32_qk_norm_##name(const QkNormParams p) { NormHeads<type>(p); }
SLUICE_QK_NORM(f32, float)
SLUICE_QK_NORM(f16, __half)
SLUICE_QK_NORM(bf16, __nv_bfloat16)

}  // namespace sluice::cuda
