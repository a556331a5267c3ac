// The gated delta rule: a thread block has a few columns of one value head of one sequence and goes
// through the sequence's tokens in order, with the columns in registers. A column is shared by four
// lanes of a warp, each with every fourth four of its rows.
#include "backend/cuda/recurrent/column.cuh"
#include "backend/cuda/recurrent/state_step.cuh"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/group.cuh"

namespace sluice::cuda {
namespace {

constexpr int kThreads = kDeltaWarps * 32;

// What a thread reads of one token, before the one before it is done.
template <class T, int kKeys>
struct Incoming {
  float q[kKeys], k[kKeys], v, b, a;

  __device__ __forceinline__ void Load(const GatedDeltaParams& p, int64_t token, int head,
                                       int column) {
    const T* row = static_cast<const T*>(p.qkv) + token * p.qkv_stride;
    const T* ba = static_cast<const T*>(p.ba) + token * p.ba_stride;
    const int64_t width = int64_t{p.k_heads} * p.k_head_dim;
    const T* q_row = row + int64_t{head / (p.v_heads / p.k_heads)} * p.k_head_dim;
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * kThreads;
      q[i] = at < p.k_head_dim ? ToFloat(q_row[at]) : 0.0f;
      k[i] = at < p.k_head_dim ? ToFloat(q_row[width + at]) : 0.0f;
    }
    v = column < p.v_head_dim ? ToFloat(row[2 * width + int64_t{head} * p.v_head_dim + column])
                              : 0.0f;
    b = ToFloat(ba[head]);
    a = ToFloat(ba[p.v_heads + head]);
  }
};

// q and k of the token at work, divided by their lengths; zeros behind them.
template <int kWidth>
struct Shared {
  alignas(16) float q[kWidth], k[kWidth];
  float sums[kDeltaWarps][2];
};

// Every thread comes here. Its first barrier is also the one behind the last use of q and k.
template <class T, int kKeys, int kWidth>
__device__ __forceinline__ void ShareKeys(const Incoming<T, kKeys>& token, float scale,
                                          Shared<kWidth>& shared) {
  float q_sum = 0.0f, k_sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kKeys; ++i) {
    q_sum = fmaf(token.q[i], token.q[i], q_sum);
    k_sum = fmaf(token.k[i], token.k[i], k_sum);
  }
  q_sum = WarpSum(q_sum);
  k_sum = WarpSum(k_sum);
  if (threadIdx.x % 32 == 0) {
    shared.sums[threadIdx.x / 32][0] = q_sum;
    shared.sums[threadIdx.x / 32][1] = k_sum;
  }
  __syncthreads();
  q_sum = k_sum = 0.0f;
#pragma unroll
  for (int w = 0; w < static_cast<int>(kDeltaWarps); ++w) {
    q_sum += shared.sums[w][0];
    k_sum += shared.sums[w][1];
  }
  const float q_factor = 1.0f / sqrtf(q_sum + 1e-6f) * scale;
  const float k_factor = 1.0f / sqrtf(k_sum + 1e-6f);
#pragma unroll
  for (int i = 0; i < kKeys; ++i) {
    const int at = static_cast<int>(threadIdx.x) + i * kThreads;
    if (at >= kWidth) continue;
    shared.q[at] = token.q[i] * q_factor;
    shared.k[at] = token.k[i] * k_factor;
  }
  __syncthreads();
}

// kRows: of a lane; kRows * kDeltaParts is at least k_head_dim.
template <class T, int kRows>
__device__ void Recur(const GatedDeltaParams& p) {
  constexpr int kWidth = kRows * static_cast<int>(kDeltaParts);
  constexpr int kKeys = (kWidth + kThreads - 1) / kThreads;
  __shared__ Shared<kWidth> shared;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = lane / 8;
  const int head = static_cast<int>(blockIdx.y);
  const int column = static_cast<int>(blockIdx.x * kDeltaColumns) + warp * 8 + lane % 8;
  const bool mine = column < p.v_head_dim;
  const StateStep step = StateStepOf(p.table, static_cast<int>(blockIdx.z));
  T* out =
      static_cast<T*>(p.out) + step.begin * p.out_stride + int64_t{head} * p.v_head_dim + column;
  if (step.write < 0) {
    for (int64_t t = 0; t < step.tokens && mine && part == 0; ++t)
      out[t * p.out_stride] = FromFloat<T>(0.0f);
    return;
  }
  float* states = p.state + int64_t{head} * p.k_head_dim * p.v_head_dim + column;
  float s[kRows];
  LoadColumn(states + step.read, p.k_head_dim, p.v_head_dim, part, mine && step.read >= 0, s);
  const float rate = expf(p.a_log[head]), bias = p.dt_bias[head];
  const float scale = 1.0f / sqrtf(static_cast<float>(p.k_head_dim));
  Incoming<T, kKeys> next;
  next.Load(p, step.begin, head, column);
  for (int64_t t = 0; t < step.tokens; ++t) {
    const Incoming<T, kKeys> token = next;
    if (t + 1 < step.tokens) next.Load(p, step.begin + t + 1, head, column);
    ShareKeys(token, scale, shared);
    const float beta = 1.0f / (1.0f + expf(-token.b)), a = token.a + bias;
    const float decay = expf(-rate * (fmaxf(a, 0.0f) + log1pf(expf(-fabsf(a)))));
    float held[kQuad] = {}, sums[kQuad] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      s[r] *= decay;
      held[r % kQuad] = fmaf(s[r], shared.k[RowOf(part, r)], held[r % kQuad]);
    }
    const float delta = (token.v - ColumnSum(held)) * beta;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      s[r] = fmaf(shared.k[RowOf(part, r)], delta, s[r]);
      sums[r % kQuad] = fmaf(s[r], shared.q[RowOf(part, r)], sums[r % kQuad]);
    }
    const float value = ColumnSum(sums);
    if (mine && part == 0) out[t * p.out_stride] = FromFloat<T>(value);
    if (Keeps(p.table, step, t))
      StoreColumn(s, p.k_head_dim, p.v_head_dim, part, mine, states + PlaceOf(p.table, step, t));
  }
}

}  // namespace

#define SLUICE_GATED_DELTA(rows, name, type)                          \
  extern "C" __global__ void __launch_bounds__(kThreads)              \
      any_f32_gated_delta_##rows##_##name(const GatedDeltaParams p) { \
    WaitForInputs();                                                  \
    Recur<type, rows>(p);                                             \
  }
#define SLUICE_GATED_DELTA_TYPES(rows)  \
  SLUICE_GATED_DELTA(rows, f32, float)  \
  SLUICE_GATED_DELTA(rows, f16, __half) \
  SLUICE_GATED_DELTA(rows, bf16, __nv_bfloat16)
SLUICE_GATED_DELTA_TYPES(8)
SLUICE_GATED_DELTA_TYPES(16)
SLUICE_GATED_DELTA_TYPES(32)
SLUICE_GATED_DELTA_TYPES(64)

}  // namespace sluice::cuda
