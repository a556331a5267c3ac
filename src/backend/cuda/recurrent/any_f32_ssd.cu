// The recurrence of Mamba-2: a thread block has a few columns of one value head of one sequence and
// goes through the sequence's tokens in order, with the columns in registers. A column is shared by
// four lanes of a warp, each with every fourth four of its rows.
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
  float q[kKeys], k[kKeys], v, dt;

  __device__ __forceinline__ void Load(const SsdParams& p, int64_t token, int head, int column) {
    const T* row = static_cast<const T*>(p.vkq) + token * p.vkq_stride;
    const T* k_row = row + int64_t{p.v_heads} * p.v_head_dim +
                     int64_t{head / (p.v_heads / p.k_heads)} * p.k_head_dim;
    const int64_t width = int64_t{p.k_heads} * p.k_head_dim;
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * kThreads;
      k[i] = at < p.k_head_dim ? ToFloat(k_row[at]) : 0.0f;
      q[i] = at < p.k_head_dim ? ToFloat(k_row[width + at]) : 0.0f;
    }
    v = column < p.v_head_dim ? ToFloat(row[int64_t{head} * p.v_head_dim + column]) : 0.0f;
    dt = p.dt == nullptr ? 0.0f : ToFloat(static_cast<const T*>(p.dt)[token * p.dt_stride + head]);
  }
};

// k and q of the token at work; zeros behind them.
template <int kWidth>
struct Shared {
  alignas(16) float q[kWidth], k[kWidth];
};

// kRows: of a lane; kRows * kDeltaParts is at least k_head_dim.
template <class T, int kRows>
__device__ void Recur(const SsdParams& p) {
  constexpr int kWidth = kRows * static_cast<int>(kDeltaParts);
  constexpr int kKeys = (kWidth + kThreads - 1) / kThreads;
  __shared__ Shared<kWidth> tokens[2];
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
  const float rate = p.a[head], bias = p.dt == nullptr ? 0.0f : p.dt_bias[head];
  const float skip = p.skip == nullptr ? 0.0f : p.skip[head];
  Incoming<T, kKeys> next;
  next.Load(p, step.begin, head, column);
  for (int64_t t = 0; t < step.tokens; ++t) {
    const Incoming<T, kKeys> token = next;
    // While one is read, the other is written: one barrier a token is enough.
    Shared<kWidth>& shared = tokens[t % 2];
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * kThreads;
      if (at >= kWidth) continue;
      shared.k[at] = token.k[i];
      shared.q[at] = token.q[i];
    }
    __syncthreads();
    if (t + 1 < step.tokens) next.Load(p, step.begin + t + 1, head, column);
    const float sum_dt = token.dt * p.dt_scale + bias;
    const float size = p.dt == nullptr ? 1.0f : fmaxf(sum_dt, 0.0f) + log1pf(expf(-fabsf(sum_dt)));
    const float decay = expf(size * rate), value = size * token.v;
    float sums[kQuad] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      s[r] = fmaf(shared.k[RowOf(part, r)], value, s[r] * decay);
      sums[r % kQuad] = fmaf(s[r], shared.q[RowOf(part, r)], sums[r % kQuad]);
    }
    const float sum = ColumnSum(sums);
    if (mine && part == 0)
      out[t * p.out_stride] = FromFloat<T>(p.skip == nullptr ? sum : fmaf(skip, token.v, sum));
    if (Keeps(p.table, step, t))
      StoreColumn(s, p.k_head_dim, p.v_head_dim, part, mine, states + PlaceOf(p.table, step, t));
  }
}

}  // namespace

#define SLUICE_SSD(rows, name, type)                     \
  extern "C" __global__ void __launch_bounds__(kThreads) \
      any_f32_ssd_##rows##_##name(const SsdParams p) {   \
    WaitForInputs();                                     \
    Recur<type, rows>(p);                                \
  }
#define SLUICE_SSD_TYPES(rows)  \
  SLUICE_SSD(rows, f32, float)  \
  SLUICE_SSD(rows, f16, __half) \
  SLUICE_SSD(rows, bf16, __nv_bfloat16)
SLUICE_SSD_TYPES(8)
SLUICE_SSD_TYPES(16)
SLUICE_SSD_TYPES(32)
SLUICE_SSD_TYPES(64)

}  // namespace sluice::cuda
