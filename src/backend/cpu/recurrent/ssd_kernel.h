// The recurrence of Mamba-2 over any F32x16. A number of a state goes from token to token by the
// same operations wherever a call begins or ends, and what a token's output is summed from is added
// in the order of the state's rows, so that chunks don't change bits.
#pragma once

#include "backend/cpu/recurrent/kernels.h"
#include "backend/cpu/simd/math.h"

namespace sluice::cpu {

template <class V>
struct SsdKernel {
  static constexpr int kLanes = kSsdColumns;
  static constexpr int kTokens = 16;  // of a chunk: their steps fill a vector
  static constexpr int kRows = 4;     // of a state that stay in registers for a whole chunk

  // What the tokens of a chunk bring to all columns of a head.
  struct Chunk {
    const float* k[kTokens];
    const float* q[kTokens];
    alignas(64) float step[kTokens];
    alignas(64) float decay[kTokens];
    int64_t first = 0;  // row of the call
    int tokens = 0;
  };

  // What they bring to the columns at work, and what these give.
  struct Values {
    alignas(64) float v[kTokens * kLanes];
    alignas(64) float sum[kTokens * kLanes];
  };

  static void Prepare(const SsdCall& call, int head, int64_t first, int tokens, Chunk& chunk) {
    const int64_t k_width = int64_t{call.k_heads} * call.k_head_dim;
    const int64_t k_at = int64_t{call.v_heads} * call.v_head_dim +
                         int64_t{head / (call.v_heads / call.k_heads)} * call.k_head_dim;
    alignas(64) float dt[kTokens] = {};
    chunk.first = first;
    chunk.tokens = tokens;
    for (int t = 0; t < tokens; ++t) {
      chunk.k[t] = call.vkq + (first + t) * call.vkq_stride + k_at;
      chunk.q[t] = chunk.k[t] + k_width;
      if (call.dt != nullptr) dt[t] = call.dt[(first + t) * call.dt_stride + head];
    }
    V step = V::Set1(1.0f);
    if (call.dt != nullptr) {
      const V sum = V::Load(dt) * V::Set1(call.dt_scale) + V::Set1(call.dt_bias[head]);
      step = Softplus(sum);
    }
    step.Store(chunk.step);
    Exp(step * V::Set1(call.a[head])).Store(chunk.decay);
  }

  // Rows [row, row + kCount) of a state over the chunk's tokens. `stride`: from row to row.
  template <int kCount>
  static void Rows(const Chunk& chunk, Values& values, int row, int lanes, int64_t stride,
                   const float* read, float* write) {
    V s[kCount];
    for (int r = 0; r < kCount; ++r)
      s[r] = read == nullptr ? V::Zero() : V::LoadFirst(read + (row + r) * stride, lanes);
    for (int t = 0; t < chunk.tokens; ++t) {
      const V v = V::Load(values.v + t * kLanes), decay = V::Set1(chunk.decay[t]);
      V sum = V::Load(values.sum + t * kLanes);
#pragma GCC unroll 4
      for (int r = 0; r < kCount; ++r) {
        s[r] = V::Fma(V::Set1(chunk.k[t][row + r]), v, s[r] * decay);
        sum = V::Fma(V::Set1(chunk.q[t][row + r]), s[r], sum);
      }
      sum.Store(values.sum + t * kLanes);
    }
    for (int r = 0; r < kCount; ++r) s[r].StoreFirst(write + (row + r) * stride, lanes);
  }

  // The chunk's tokens over columns [column, column + lanes) of a head.
  static void Columns(const SsdCall& call, const Chunk& chunk, int head, int column, int lanes,
                      const float* read, float* write) {
    Values values;
    const int64_t at = int64_t{head} * call.v_head_dim + column;
    const V skip = V::Set1(call.skip == nullptr ? 0.0f : call.skip[head]);
    for (int t = 0; t < chunk.tokens; ++t) {
      const V v = V::LoadFirst(call.vkq + (chunk.first + t) * call.vkq_stride + at, lanes);
      (v * V::Set1(chunk.step[t])).Store(values.v + t * kLanes);
      (call.skip == nullptr ? V::Zero() : v * skip).Store(values.sum + t * kLanes);
    }
    const float* from = read == nullptr ? nullptr : read + column;
    int row = 0;
    for (; row + kRows <= call.k_head_dim; row += kRows)
      Rows<kRows>(chunk, values, row, lanes, call.v_head_dim, from, write + column);
    for (; row < call.k_head_dim; ++row)
      Rows<1>(chunk, values, row, lanes, call.v_head_dim, from, write + column);
    for (int t = 0; t < chunk.tokens; ++t)
      V::Load(values.sum + t * kLanes)
          .StoreFirst(call.out + (chunk.first + t) * call.out_stride + at, lanes);
  }

  static void Run(const SsdCall& call, const StateRun& run, int head, int first, int end) {
    Chunk chunk;
    const float* read = run.read;
    for (int64_t t = 0; t < run.tokens; t += kTokens) {
      const int64_t left = run.tokens - t;
      Prepare(call, head, run.begin + t, static_cast<int>(left < kTokens ? left : kTokens), chunk);
      for (int column = first; column < end; column += kLanes) {
        const int lanes = end - column < kLanes ? end - column : kLanes;
        Columns(call, chunk, head, column, lanes, read, run.write);
      }
      read = run.write;
    }
  }
};

}  // namespace sluice::cpu
