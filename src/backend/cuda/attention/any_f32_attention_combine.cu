// Combines the partial results of splits in ascending order, as the kernels that walk all of a
// row's splits do. A warp per query token and head.
#include "backend/cuda/attention/walk.cuh"
#include "backend/cuda/simt/element.cuh"
#include "base/dtype.h"

namespace sluice::cuda {
namespace {

constexpr int kColumns = 8;  // a lane's numbers of a head of up to 256
constexpr int kAhead = 4;    // splits that are read before they are used

template <class Activation>
__device__ void StoreRow(const AttentionParams& p, int token, int head,
                         const float (&values)[kColumns], float sum) {
  const float factor = 1.0f / sum;
  Activation* to =
      static_cast<Activation*>(p.out) + token * p.out_stride + int64_t{head} * p.head_dim;
#pragma unroll
  for (int j = 0; j < kColumns; ++j) {
    const int d = threadIdx.x % 32 + 32 * j;
    if (d < p.head_dim) to[d] = FromFloat<Activation>(values[j] * factor);
  }
}

__device__ void Combine(const AttentionParams& p, int token, int head, int from, int to) {
  const int lane = threadIdx.x % 32;
  RowState state = {-INFINITY, 0.0f};
  float values[kColumns] = {};
  for (int begin = from; begin <= to; begin += kAhead) {
    RowState states[kAhead];
    float parts[kAhead][kColumns];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int64_t at = PartialRow(p, token, head, min(begin + i, to));
      const float2 pair = reinterpret_cast<const float2*>(p.partial_state)[at];
      states[i] = {pair.x, pair.y};
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        const int d = lane + 32 * j;
        parts[i][j] = d < p.head_dim ? p.partial[at * p.head_dim + d] : 0.0f;
      }
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (begin + i > to) break;
      if (begin + i == from) {
        state = states[0];
#pragma unroll
        for (int j = 0; j < kColumns; ++j) values[j] = parts[0][j];
        continue;
      }
      const float2 join = Join(&state, states[i]);
#pragma unroll
      for (int j = 0; j < kColumns; ++j) values[j] = Joined(values[j], parts[i][j], join);
    }
  }
  switch (static_cast<DType>(p.activation)) {
    case DType::kF32:
      return StoreRow<float>(p, token, head, values, state.sum);
    case DType::kF16:
      return StoreRow<__half>(p, token, head, values, state.sum);
    default:
      return StoreRow<__nv_bfloat16>(p, token, head, values, state.sum);
  }
}

}  // namespace
}  // namespace sluice::cuda

extern "C" __global__ void __launch_bounds__(128)
    any_f32_attention_combine(const __grid_constant__ sluice::cuda::AttentionParams params) {
  using namespace sluice::cuda;
  const int64_t row = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  const int token = static_cast<int>(row / params.q_heads);
  const int head = static_cast<int>(row % params.q_heads);
  if (token >= params.tokens || token >= params.query_start[params.sequences]) return;
  const auto begin = [&](int s) { return int64_t{params.query_start[s]}; };
  const SequenceAt at = LoadSequence(params, LastAtMost(params.sequences, token, begin));
  if (at.tokens * params.group > params.split_rows || at.context < at.tokens) return;
  const Visible visible = VisibleAt(params, at, at.Position(token - at.first_token));
  if (visible.first_split() == visible.last_split()) return;  // already written
  Combine(params, token, head, visible.first_split(), visible.last_split());
}
