// Several residual streams side by side in a row. Predict and correct: a thread has one number of
// each stream of a token, and blocks share a token's mix; level: a thread block has one row. T is
// the activation type, Sum that of the streams.
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/group.cuh"
#include "backend/cuda/streams/params.h"

namespace sluice::cuda {
namespace {

// mix[row] = sum over k of coefficients[row, k] * tanh(routes[k]), of so many rows, a thread each.
__device__ void MixRows(const StreamsParams& p, int64_t token, int rows, float* mix) {
  const float* routes = p.routes + token * p.routes_stride;
  if (static_cast<int>(threadIdx.x) < rows) {
    const float* coefficients = p.coefficients + threadIdx.x * p.coefficients_stride;
    float sum = 0.0f;
    for (int k = 0; k < p.count; ++k) sum = fmaf(coefficients[k], tanhf(routes[k]), sum);
    mix[threadIdx.x] = sum;
  }
  __syncthreads();
}

template <class T, class Sum>
__device__ void Predict(const StreamsParams& p) {
  __shared__ float mix[kStreamsMost * kStreamsMost];
  const int64_t token = blockIdx.x, at = int64_t{blockIdx.y} * kStreamsThreads + threadIdx.x;
  MixRows(p, token, p.count * p.count, mix);
  if (at >= p.width) return;
  Sum* streams = static_cast<Sum*>(p.streams) + token * p.streams_stride + at;
  const T* other = static_cast<const T*>(p.other);
  const float added = other == nullptr ? 0.0f : ToFloat(other[token * p.other_stride + at]);
  float before[kStreamsMost];
#pragma unroll
  for (int j = 0; j < kStreamsMost; ++j)
    before[j] = j < p.count ? ToFloat(streams[j * p.width]) + (j > 0 ? added : 0.0f) : 0.0f;
#pragma unroll
  for (int i = 0; i < kStreamsMost; ++i) {
    if (i >= p.count) break;
    float sum = before[i];
#pragma unroll
    for (int j = 0; j < kStreamsMost; ++j) {
      if (j < p.count) sum = fmaf(before[j], mix[i * p.count + j], sum);
    }
    streams[i * p.width] = FromFloat<Sum>(sum);
    if (i == 0) static_cast<Sum*>(p.out)[token * p.out_stride + at] = FromFloat<Sum>(sum);
  }
}

template <class T, class Sum>
__device__ void Correct(const StreamsParams& p) {
  __shared__ float mix[kStreamsMost];
  const int64_t token = blockIdx.x, at = int64_t{blockIdx.y} * kStreamsThreads + threadIdx.x;
  MixRows(p, token, p.count, mix);
  if (at >= p.width) return;
  Sum* streams = static_cast<Sum*>(p.streams) + token * p.streams_stride + at;
  const float x = ToFloat(static_cast<const Sum*>(p.other)[token * p.other_stride + at]);
  const float change = x - ToFloat(streams[0]);
  for (int i = 0; i < p.count; ++i) {
    const Sum sum = FromFloat<Sum>(fmaf(change, 1.0f + mix[i], ToFloat(streams[i * p.width])));
    streams[i * p.width] = sum;
    if (i > 0) continue;
    const float scale = p.scale == nullptr ? 1.0f : p.scale[at];
    static_cast<T*>(p.out)[token * p.out_stride + at] = FromFloat<T>(ToFloat(sum) * scale);
  }
}

template <class Sum>
__device__ void Level(const StreamsParams& p) {
  __shared__ float shared[32];
  const int64_t token = blockIdx.x;
  Sum* streams = static_cast<Sum*>(p.streams) + token * p.streams_stride;
  float factors[kStreamsMost] = {1.0f}, first = 0.0f;
#pragma unroll
  for (int i = 0; i < kStreamsMost; ++i) {
    if (i >= p.count) break;
    float squares = 0.0f;
    for (int64_t at = threadIdx.x; at < p.width; at += blockDim.x) {
      const float value = ToFloat(streams[i * p.width + at]);
      squares = fmaf(value, value, squares);
    }
    const float mean = BlockSum(squares, shared) / static_cast<float>(p.width);
    if (i == 0) {
      first = sqrtf(mean);
    } else {
      // The comparison lets NaN through.
      factors[i] = first / sqrtf(mean < p.mean_square_min ? p.mean_square_min : mean);
    }
  }
  for (int64_t at = threadIdx.x; at < p.width; at += blockDim.x) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kStreamsMost; ++i) {
      if (i >= p.count) break;
      const float value = ToFloat(streams[i * p.width + at]) * factors[i];
      sum += value;
      if (p.out == nullptr && i > 0) streams[i * p.width + at] = FromFloat<Sum>(value);
    }
    if (p.out == nullptr) continue;
    static_cast<Sum*>(p.out)[token * p.out_stride + at] =
        FromFloat<Sum>(sum / static_cast<float>(p.count));
  }
}

}  // namespace

#define SLUICE_STREAMS(name, type, sum)                                              \
  extern "C" __global__ void any_f32_predict_streams_##name(const StreamsParams p) { \
    WaitForInputs();                                                                 \
    Predict<type, sum>(p);                                                           \
  }                                                                                  \
  extern "C" __global__ void any_f32_correct_streams_##name(const StreamsParams p) { \
    WaitForInputs();                                                                 \
    Correct<type, sum>(p);                                                           \
  }                                                                                  \
  extern "C" __global__ void any_f32_level_streams_##name(const StreamsParams p) {   \
    WaitForInputs();                                                                 \
    Level<sum>(p);                                                                   \
  }
SLUICE_STREAMS(f32, float, float)
SLUICE_STREAMS(f16, __half, float)
SLUICE_STREAMS(bf16, __nv_bfloat16, __nv_bfloat16)

}  // namespace sluice::cuda
