// A causal convolution of each channel over a sequence's tokens, with SiLU or between gates: a
// thread has a channel of one token. First the outputs, of all tokens at once, then the states,
// which are read until then.
#include "backend/cuda/recurrent/state_step.cuh"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/element.cuh"
#include "backend/cuda/simt/sequence.cuh"

namespace sluice::cuda {
namespace {

// Row `row` of a sequence's state, then of its tokens; `old`: its state, null for zeros.
template <class T>
__device__ __forceinline__ float ConvRow(const ShortConvParams& p, const float* old, int64_t begin,
                                         int64_t row, int64_t channel) {
  const int64_t kept = p.taps - 1;
  if (row >= kept) {
    const T* x = static_cast<const T*>(p.x) + (begin + row - kept) * p.x_stride + channel;
    return p.gated ? ToFloat(x[0]) * ToFloat(x[2 * p.channels]) : ToFloat(x[0]);
  }
  return old == nullptr ? 0.0f : old[row * p.channels + channel];
}

__device__ __forceinline__ const float* OldState(const ShortConvParams& p, const StateStep& step) {
  return step.read < 0 ? nullptr : p.state + step.read;
}

template <class T>
__device__ void Convolve(const ShortConvParams& p) {
  const int64_t token = blockIdx.x;
  const int64_t channel = int64_t{blockIdx.y} * kShortConvThreads + threadIdx.x;
  const int sequence = SequenceOf(p.table.query_start, p.table.sequences, token);
  if (sequence < 0 || channel >= p.channels) return;
  const StateStep step = StateStepOf(p.table, sequence);
  const float* old = OldState(p, step);
  const float* weight = p.weight + channel * p.weight_stride;
  T* out = static_cast<T*>(p.out) + token * p.out_stride + channel;
  if (step.write < 0) {
    *out = FromFloat<T>(0.0f);
    return;
  }
  float sum = p.bias == nullptr ? 0.0f : p.bias[channel];
  for (int j = 0; j < p.taps; ++j)
    sum = fmaf(ConvRow<T>(p, old, step.begin, token - step.begin + j, channel), weight[j], sum);
  const int64_t gate = token * p.x_stride + p.channels + channel;
  *out = FromFloat<T>(p.gated ? sum * ToFloat(static_cast<const T*>(p.x)[gate])
                              : sum / (1.0f + expf(-sum)));
}

template <class T>
__device__ void KeepRows(const ShortConvParams& p) {
  const int64_t channel = int64_t{blockIdx.y} * kShortConvThreads + threadIdx.x;
  const StateStep step = StateStepOf(p.table, static_cast<int>(blockIdx.x));
  if (step.write < 0 || channel >= p.channels) return;
  const float* old = OldState(p, step);
  // The old state may lie where the last one goes. A row moves towards the first, so that none is
  // read after it was written.
  for (int64_t t = 0; t < step.tokens; ++t) {
    if (!Keeps(p.table, step, t)) continue;
    float* to = p.state + PlaceOf(p.table, step, t) + channel;
    for (int64_t j = 0; j < p.taps - 1; ++j)
      to[j * p.channels] = ConvRow<T>(p, old, step.begin, t + 1 + j, channel);
  }
}

}  // namespace

#define SLUICE_SHORT_CONV(name, type)                                                   \
  extern "C" __global__ void any_f32_short_conv_##name(const ShortConvParams p) {       \
    WaitForInputs();                                                                    \
    Convolve<type>(p);                                                                  \
  }                                                                                     \
  extern "C" __global__ void any_f32_short_conv_state_##name(const ShortConvParams p) { \
    WaitForInputs();                                                                    \
    KeepRows<type>(p);                                                                  \
  }
SLUICE_SHORT_CONV(f32, float)
SLUICE_SHORT_CONV(f16, __half)
SLUICE_SHORT_CONV(bf16, __nv_bfloat16)

}  // namespace sluice::cuda
