// The recurrence of Mamba over any F32x16, a lane for each channel. A number of a state goes from
// token to token by the same operations wherever a call begins or ends, and what a token's output
// is summed from is added in the order of the state's rows, so that chunks don't change bits.
#pragma once

#include "backend/cpu/recurrent/kernels.h"
#include "backend/cpu/simd/math.h"

namespace sluice::cpu {

template <class V>
struct SelectiveScanKernel {
  static constexpr int kLanes = kScanChannels;
  static constexpr int kTokens = 16;  // of a chunk
  static constexpr int kRows = 4;     // of a state that stay in registers for a whole chunk

  // What the tokens of a chunk bring to the channels at work, and what these give.
  struct Chunk {
    alignas(64) float step[kTokens * kLanes];
    alignas(64) float learnt[kTokens * kLanes];  // times B
    alignas(64) float sum[kTokens * kLanes];
    const float* bc[kTokens];
    int tokens = 0;
  };

  static void Prepare(const ScanCall& call, int64_t row, int tokens, int64_t first, int lanes,
                      Chunk& chunk) {
    const V bias = V::LoadFirst(call.dt_bias + first, lanes);
    const V skip = V::LoadFirst(call.skip + first, lanes);
    chunk.tokens = tokens;
    for (int t = 0; t < tokens; ++t) {
      const V sum = V::LoadFirst(call.dt + (row + t) * call.dt_stride + first, lanes) + bias;
      const V step = Softplus(sum);
      const V x = V::LoadFirst(call.x + (row + t) * call.x_stride + first, lanes);
      step.Store(chunk.step + t * kLanes);
      (step * x).Store(chunk.learnt + t * kLanes);
      (skip * x).Store(chunk.sum + t * kLanes);
      chunk.bc[t] = call.bc + (row + t) * call.bc_stride;
    }
  }

  // Rows [row, row + kCount) of the channels' states over the chunk's tokens.
  template <int kCount>
  static void Rows(const ScanCall& call, const float* rates, Chunk& chunk, int row, int lanes,
                   const float* read, float* write) {
    V s[kCount];
    for (int r = 0; r < kCount; ++r)
      s[r] = read == nullptr ? V::Zero() : V::LoadFirst(read + (row + r) * call.channels, lanes);
    for (int t = 0; t < chunk.tokens; ++t) {
      const V step = V::Load(chunk.step + t * kLanes), learnt = V::Load(chunk.learnt + t * kLanes);
      const float *b = chunk.bc[t] + row, *c = b + call.state_size;
      V sum = V::Load(chunk.sum + t * kLanes);
#pragma GCC unroll 4
      for (int r = 0; r < kCount; ++r) {
        const V decay = Exp(step * V::Load(rates + (row + r) * kLanes));
        s[r] = V::Fma(V::Set1(b[r]), learnt, s[r] * decay);
        sum = V::Fma(V::Set1(c[r]), s[r], sum);
      }
      sum.Store(chunk.sum + t * kLanes);
    }
    for (int r = 0; r < kCount; ++r) s[r].StoreFirst(write + (row + r) * call.channels, lanes);
  }

  static void Run(const ScanCall& call, const float* rates, const StateRun& run, int64_t first,
                  int count) {
    Chunk chunk;
    const float* read = run.read == nullptr ? nullptr : run.read + first;
    float* const write = run.write + first;
    for (int64_t t = 0; t < run.tokens; t += kTokens) {
      const int64_t left = run.tokens - t, at = run.begin + t;
      Prepare(call, at, static_cast<int>(left < kTokens ? left : kTokens), first, count, chunk);
      int row = 0;
      for (; row + kRows <= call.state_size; row += kRows)
        Rows<kRows>(call, rates, chunk, row, count, read, write);
      for (; row < call.state_size; ++row) Rows<1>(call, rates, chunk, row, count, read, write);
      for (int i = 0; i < chunk.tokens; ++i)
        V::Load(chunk.sum + i * kLanes)
            .StoreFirst(call.out + (at + i) * call.out_stride + first, count);
      read = write;
    }
  }
};

}  // namespace sluice::cpu
