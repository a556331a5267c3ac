// RMSNorm of Q and K heads, RoPE and the KV write in one pass: a warp has one head of one token, a
// lane every 32nd number, which it keeps in registers: half a head stands between the numbers of a
// pair, so that both are the same lane's. The bits are those of any_f32_qk_norm.cu and
// any_f32_rope_kv.cu.
#include "backend/cuda/rope_kv/kv_row.cuh"
#include "backend/cuda/simt/group.cuh"
#include "backend/cuda/simt/rehearsal.cuh"

namespace sluice::cuda {
namespace {

template <class T, int kEach>
__device__ __forceinline__ void NormHead(const NormedRopeKvParams& n, const float* weight, int lane,
                                         float (&x)[kEach]) {
  float by[kEach], sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kEach; ++i) by[i] = weight[lane + 32 * i];
#pragma unroll
  for (int i = 0; i < kEach; ++i) sum += x[i] * x[i];
  const float inverse = InverseRms(WarpSum(sum), 32 * kEach, n.eps);
#pragma unroll
  for (int i = 0; i < kEach; ++i) x[i] = ToFloat(FromFloat<T>(x[i] * inverse * by[i]));
}

// `row`: of the table; null: the position lies outside.
template <class T, int kEach>
__device__ __forceinline__ void RotateHead(const float* row, int lane, float (&x)[kEach]) {
  constexpr int kPairs = kEach / 2;
  const float nan = __uint_as_float(0x7fc00000u);
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const float cosine = row == nullptr ? nan : row[lane + 32 * i];
    const float sine = row == nullptr ? nan : row[lane + 32 * (i + kPairs)];
    const float a = x[i], b = x[i + kPairs];
    x[i] = ToFloat(FromFloat<T>(a * cosine - b * sine));
    x[i + kPairs] = ToFloat(FromFloat<T>(a * sine + b * cosine));
  }
}

template <int kEach>
__device__ __forceinline__ void WriteKv(const RopeKvParams& p, const KvRow& row, int lane,
                                        const float (&x)[kEach]) {
  float scale = 1.0f;
  if (row.scale != nullptr) {
    float largest = 0.0f;
    bool finite = true;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (lane + 32 * i >= row.width) continue;
      largest = fmaxf(largest, fabsf(x[i]));
      finite = finite && isfinite(x[i]);
    }
    scale = RowScale(p.kv, WarpMax(largest), __all_sync(~0u, finite) != 0);
    if (lane == 0) *row.scale = scale;
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (lane + 32 * i >= row.width) continue;
    // A scale of zero or NaN makes codes of zero.
    const float code = row.scale == nullptr ? x[i] : scale > 0.0f ? x[i] / scale : 0.0f;
    StoreKv(p.kv, row.data, row.first + lane + 32 * i, code);
  }
}

// In a rehearsal (rehearsal.cuh) of a head that stands nowhere.
template <class T, int kEach>
__device__ __forceinline__ void TakeHead(const NormedRopeKvParams& n, bool rehearses) {
  const RopeKvParams& p = n.rope;
  const int lane = threadIdx.x % 32, heads = p.q_heads + 2 * p.kv_heads;
  const int64_t index = int64_t{blockIdx.x} * kRopeKvWarps + threadIdx.x / 32;
  const int64_t token = index / heads;
  const int h = static_cast<int>(index % heads);
  if (token >= p.tokens) return;
  const bool is_q = h < p.q_heads, is_v = h >= p.q_heads + p.kv_heads;
  const T* const head =
      rehearses ? OnStage<T>()
                : static_cast<const T*>(p.qkv) + token * p.qkv_stride + int64_t{h} * p.head_dim;
  const int position = rehearses ? 0 : p.positions[token];
  KvRow row = {};
  if (!is_q) row = FindRow(p, rehearses ? 0 : p.slots[token], is_v, (h - p.q_heads) % p.kv_heads);
  float x[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) x[i] = ToFloat(head[lane + 32 * i]);
  if (!is_v) {
    NormHead<T, kEach>(n, is_q ? n.q_weight : n.k_weight, lane, x);
    const bool there = position >= 0 && position < p.positions_max;
    RotateHead<T, kEach>(there ? p.table + int64_t{position} * p.rotary_dims : nullptr, lane, x);
  }
  if (is_q) {
    T* const to = rehearses
                      ? OnStage<T>()
                      : static_cast<T*>(p.q_out) + token * p.q_out_stride + int64_t{h} * p.head_dim;
#pragma unroll
    for (int i = 0; i < kEach; ++i) to[lane + 32 * i] = FromFloat<T>(x[i]);
    return;
  }
  if (rehearses) {
    row.data = OnStage<void>();
    row.first = 0;
    if (row.scale != nullptr) row.scale = OnStage<float>();
  }
  if (row.data != nullptr) WriteKv(p, row, lane, x);
}

template <class T>
__device__ void NormAndRotate(const NormedRopeKvParams& n) {
  static_assert(kNormedHeadMax * 4 <= sizeof(Stage));
  bool rehearses = FewBlocks();
  LetNextBegin();
#pragma unroll 1
  for (;; rehearses = false) {
    if (!rehearses) WaitForInputs();
    if (n.rope.head_dim == 128) {
      TakeHead<T, 4>(n, rehearses);
    } else if (n.rope.head_dim == 64) {
      TakeHead<T, 2>(n, rehearses);
    } else {
      TakeHead<T, kNormedHeadMax / 32>(n, rehearses);
    }
    if (!rehearses) return;
  }
}

}  // namespace

#define SLUICE_NORMED_ROPE_KV(name, type)                                                \
  extern "C" __global__ void any_f32_normed_rope_kv_##name(const NormedRopeKvParams p) { \
    NormAndRotate<type>(p);                                                              \
  }
SLUICE_NORMED_ROPE_KV(f32, float)
SLUICE_NORMED_ROPE_KV(f16, __half)
SLUICE_NORMED_ROPE_KV(bf16, __nv_bfloat16)

}  // namespace sluice::cuda
