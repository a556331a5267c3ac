// The recurrence of Mamba: a thread has a channel of one sequence and goes through the sequence's
// tokens in order, with the channel's state and rates in registers.
#include "backend/cuda/recurrent/state_step.cuh"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/element.cuh"

namespace sluice::cuda {
namespace {

// B and C of the token at work, zeros behind them.
template <int kSize>
struct Shared {
  float b[kSize], c[kSize];
};

// kSize: at least state_size.
template <class T, int kSize>
__device__ void Scan(const SelectiveScanParams& p) {
  __shared__ Shared<kSize> tokens[2];
  const int64_t channel = int64_t{blockIdx.x} * kScanThreads + threadIdx.x;
  const bool mine = channel < p.channels;
  const StateStep step = StateStepOf(p.table, static_cast<int>(blockIdx.y));
  T* out = static_cast<T*>(p.out) + step.begin * p.out_stride + channel;
  if (step.write < 0) {
    for (int64_t t = 0; t < step.tokens && mine; ++t) out[t * p.out_stride] = FromFloat<T>(0.0f);
    return;
  }
  float* states = p.state + channel;
  float s[kSize], rates[kSize];
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    const bool there = mine && i < p.state_size;
    rates[i] = there ? p.a[channel * p.a_stride + i] : 0.0f;
    s[i] = there && step.read >= 0 ? states[step.read + i * p.channels] : 0.0f;
  }
  const float bias = mine ? p.dt_bias[channel] : 0.0f, skip = mine ? p.skip[channel] : 0.0f;
  const T* x = static_cast<const T*>(p.x) + step.begin * p.x_stride + channel;
  const T* dt = static_cast<const T*>(p.dt) + step.begin * p.dt_stride + channel;
  for (int64_t t = 0; t < step.tokens; ++t) {
    // While one is read, the other is written: one barrier a token is enough.
    Shared<kSize>& shared = tokens[t % 2];
    const T* bc = static_cast<const T*>(p.bc) + (step.begin + t) * p.bc_stride;
    for (int i = static_cast<int>(threadIdx.x); i < kSize; i += kScanThreads) {
      const bool there = i < p.state_size;
      shared.b[i] = there ? ToFloat(bc[i]) : 0.0f;
      shared.c[i] = there ? ToFloat(bc[p.state_size + i]) : 0.0f;
    }
    const float sum_dt = (mine ? ToFloat(dt[t * p.dt_stride]) : 0.0f) + bias;
    const float value = mine ? ToFloat(x[t * p.x_stride]) : 0.0f;
    const float size = fmaxf(sum_dt, 0.0f) + log1pf(expf(-fabsf(sum_dt))), learnt = size * value;
    __syncthreads();
    float sum = skip * value;
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      s[i] = fmaf(shared.b[i], learnt, s[i] * expf(size * rates[i]));
      sum = fmaf(shared.c[i], s[i], sum);
    }
    if (mine) out[t * p.out_stride] = FromFloat<T>(sum);
    if (!Keeps(p.table, step, t)) continue;
    float* kept = states + PlaceOf(p.table, step, t);
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      if (mine && i < p.state_size) kept[i * p.channels] = s[i];
    }
  }
}

}  // namespace

#define SLUICE_SELECTIVE_SCAN(size, name, type)                             \
  extern "C" __global__ void __launch_bounds__(kScanThreads)                \
      any_f32_selective_scan_##size##_##name(const SelectiveScanParams p) { \
    WaitForInputs();                                                        \
    Scan<type, size>(p);                                                    \
  }
#define SLUICE_SELECTIVE_SCAN_TYPES(size)  \
  SLUICE_SELECTIVE_SCAN(size, f32, float)  \
  SLUICE_SELECTIVE_SCAN(size, f16, __half) \
  SLUICE_SELECTIVE_SCAN(size, bf16, __nv_bfloat16)
SLUICE_SELECTIVE_SCAN_TYPES(16)
SLUICE_SELECTIVE_SCAN_TYPES(64)

}  // namespace sluice::cuda
