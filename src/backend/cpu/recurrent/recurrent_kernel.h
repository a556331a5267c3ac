// The convolution and the gated delta rule of F32 rows over any F32x16. Every number is computed
// from its token and the state before it by the same operations wherever a call begins or ends, and
// states are kept as they were computed, so that chunks don't change bits.
#pragma once

#include "backend/cpu/activation/activation_kernel.h"
#include "backend/cpu/norm/norm_kernel.h"
#include "backend/cpu/recurrent/kernels.h"
#include "backend/cpu/simd/math.h"

namespace sluice::cpu {

template <class V>
struct ShortConvKernel {
  static constexpr int kLanes = 16;

  // What the convolution sees of a token: numbers (null: zeros), times gates where there are any.
  struct Row {
    const float* numbers = nullptr;
    const float* gates = nullptr;
  };

  // Row `row` of the state's rows, then the call's.
  static Row RowOf(const ShortConvCall& call, const StateRun& run, int64_t row) {
    const int64_t kept = call.kernel - 1;
    if (row < kept) return {run.read == nullptr ? nullptr : run.read + row * call.channels};
    const float* x = call.x + (run.begin + row - kept) * call.x_stride;
    return call.gated ? Row{x + 2 * call.channels, x} : Row{x};
  }

  static V LoadRow(const Row& row, int64_t at, int lanes) {
    if (row.numbers == nullptr) return V::Zero();
    const V numbers = V::LoadFirst(row.numbers + at, lanes);
    return row.gates == nullptr ? numbers : numbers * V::LoadFirst(row.gates + at, lanes);
  }

  static void Run(const ShortConvCall& call, const float* taps, const StateRun& run, int64_t first,
                  int count) {
    for (int64_t t = 0; t < run.tokens; ++t) {
      Row rows[kConvKernelMax];
      for (int j = 0; j < call.kernel; ++j) rows[j] = RowOf(call, run, t + j);
      const float* gates = call.x + (run.begin + t) * call.x_stride + call.channels + first;
      float* out = call.out + (run.begin + t) * call.out_stride + first;
      for (int i = 0; i < count; i += kLanes) {
        const int lanes = count - i < kLanes ? count - i : kLanes;
        V sum = call.bias == nullptr ? V::Zero() : V::LoadFirst(call.bias + first + i, lanes);
        for (int j = 0; j < call.kernel; ++j)
          sum = V::Fma(LoadRow(rows[j], first + i, lanes), V::Load(taps + j * kConvChannels + i),
                       sum);
        sum = call.gated ? sum * V::LoadFirst(gates + i, lanes) : ActivationKernel<V>::SiluOf(sum);
        sum.StoreFirst(out + i, lanes);
      }
    }
    // A row moves towards the first, so that in place none is read after it was written.
    for (int j = 0; j < call.kernel - 1; ++j) {
      const Row row = RowOf(call, run, run.tokens + j);
      float* to = run.write + j * call.channels + first;
      for (int i = 0; i < count; i += kLanes) {
        const int lanes = count - i < kLanes ? count - i : kLanes;
        LoadRow(row, first + i, lanes).StoreFirst(to + i, lanes);
      }
    }
  }
};

template <class V>
struct GatedDeltaKernel {
  static constexpr int kLanes = 16;
  static constexpr int kTokens = kLanes;  // that are prepared together: their gates fill a vector
  // Sums over a state's rows run in so many lanes of rows, so that one waits less for another.
  static constexpr int kRowLanes = 4;
  static constexpr float kNormEps = 1e-6f;

  // What the tokens of a chunk bring to a head.
  struct Chunk {
    alignas(64) float q[kTokens][kDeltaKeyDimMax];
    alignas(64) float k[kTokens][kDeltaKeyDimMax];
    alignas(64) float decay[kTokens], beta[kTokens];
    int64_t first = 0;  // row of the call
    int tokens = 0;
  };

  // Columns of a state between two tokens of a chunk.
  struct Tile {
    alignas(64) float numbers[kDeltaKeyDimMax * kDeltaColumns];
  };

  // Where a state is read or written.
  struct StateAt {
    float* data = nullptr;  // null: zeros
    int64_t stride = 0;     // from row to row
  };

  static void Prepare(const DeltaCall& call, int head, int64_t first, int tokens, Chunk& chunk) {
    const int64_t d = call.k_head_dim, k_head = head / (call.v_heads / call.k_heads);
    const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(d));
    alignas(64) float a[kLanes] = {}, b[kLanes] = {};
    chunk.first = first;
    chunk.tokens = tokens;
    for (int t = 0; t < tokens; ++t) {
      const float* q = call.qkv + (first + t) * call.qkv_stride + k_head * d;
      const float* k = q + call.k_heads * d;
      NormKernel<V>::Map(d, chunk.q[t],
                         [factor = V::Set1(InverseLength(q, d) * scale), q](const auto& load) {
                           return load(q) * factor;
                         });
      NormKernel<V>::Map(d, chunk.k[t],
                         [factor = V::Set1(InverseLength(k, d)), k](const auto& load) {
                           return load(k) * factor;
                         });
      const float* ba = call.ba + (first + t) * call.ba_stride;
      b[t] = ba[head];
      a[t] = ba[call.v_heads + head] + call.dt_bias[head];
    }
    const V one = V::Set1(1.0f), sum = V::Load(a);
    (one / (one + Exp(V::Zero() - V::Load(b)))).Store(chunk.beta);
    Exp(V::Zero() - Exp(V::Set1(call.a_log[head])) * Softplus(sum)).Store(chunk.decay);
  }

  static float InverseLength(const float* x, int64_t n) {
    const float sum = NormKernel<V>::SumOf(x, n, [](V v, V total) { return V::Fma(v, v, total); });
    return 1.0f / __builtin_sqrtf(sum + kNormEps);
  }

  static V Load(const float* p, int lanes) {
    return lanes == kLanes ? V::Load(p) : V::LoadFirst(p, lanes);
  }
  static void Store(V v, float* p, int lanes) {
    if (lanes == kLanes) {
      v.Store(p);
    } else {
      v.StoreFirst(p, lanes);
    }
  }

  // One token over kVectors vectors of columns, the last of which has `lanes`. The state goes from
  // `from` to `to`, either of which may be the tile.
  template <int kVectors>
  static void Token(const float* q, const float* k, float decay, float beta, const float* v,
                    float* out, int rows, int lanes, const StateAt& from, const StateAt& to,
                    float* tile) {
    const auto lanes_of = [lanes](int c) { return c + 1 < kVectors ? kLanes : lanes; };
    V held[kRowLanes][kVectors], sum[kRowLanes][kVectors];
    for (int r = 0; r < kRowLanes; ++r) {
      for (int c = 0; c < kVectors; ++c) held[r][c] = sum[r][c] = V::Zero();
    }
    const V kept = V::Set1(decay);
    const auto take = [&](int i, int r) {
      const V factor = V::Set1(k[i]);
      for (int c = 0; c < kVectors; ++c) {
        const V s = from.data == nullptr
                        ? V::Zero()
                        : Load(from.data + i * from.stride + c * kLanes, lanes_of(c)) * kept;
        s.Store(tile + (i * kVectors + c) * kLanes);
        held[r][c] = V::Fma(s, factor, held[r][c]);
      }
    };
    V delta[kVectors];
    const auto give = [&](int i, int r) {
      const V key = V::Set1(k[i]), query = V::Set1(q[i]);
      for (int c = 0; c < kVectors; ++c) {
        const V s = V::Fma(key, delta[c], V::Load(tile + (i * kVectors + c) * kLanes));
        Store(s, to.data + i * to.stride + c * kLanes, lanes_of(c));
        sum[r][c] = V::Fma(s, query, sum[r][c]);
      }
    };
    ForRows(rows, take);
    for (int c = 0; c < kVectors; ++c) {
      const V value = Load(v + c * kLanes, lanes_of(c));
      delta[c] = (value - ((held[0][c] + held[1][c]) + (held[2][c] + held[3][c]))) * V::Set1(beta);
    }
    ForRows(rows, give);
    for (int c = 0; c < kVectors; ++c)
      Store((sum[0][c] + sum[1][c]) + (sum[2][c] + sum[3][c]), out + c * kLanes, lanes_of(c));
  }

  // body(row, row mod kRowLanes) for all rows.
  template <class Body>
  static void ForRows(int rows, const Body& body) {
    int i = 0;
    for (; i + kRowLanes <= rows; i += kRowLanes) {
#pragma GCC unroll 4
      for (int r = 0; r < kRowLanes; ++r) body(i + r, r);
    }
    for (int r = 0; i + r < rows; ++r) body(i + r, r);
  }

  // The chunk's tokens over columns [column, column + (kVectors - 1) * kLanes + lanes).
  template <int kVectors>
  static void Columns(const DeltaCall& call, const Chunk& chunk, int head, int column, int lanes,
                      const float* read, float* write) {
    Tile tile;
    const int64_t stride = call.v_head_dim;
    const StateAt within = {tile.numbers, kVectors * kLanes};
    const StateAt begin = {read == nullptr ? nullptr : const_cast<float*>(read) + column, stride};
    const StateAt end = {write + column, stride};
    const int64_t out_column = int64_t{head} * stride + column;
    const int64_t v_column = 2 * int64_t{call.k_heads} * call.k_head_dim + out_column;
    for (int t = 0; t < chunk.tokens; ++t) {
      const int64_t row = chunk.first + t;
      // What is within the tile is whole vectors.
      Token<kVectors>(chunk.q[t], chunk.k[t], chunk.decay[t], chunk.beta[t],
                      call.qkv + row * call.qkv_stride + v_column,
                      call.out + row * call.out_stride + out_column, call.k_head_dim, lanes,
                      t == 0 ? begin : within, t + 1 == chunk.tokens ? end : within, tile.numbers);
    }
  }

  static void Run(const DeltaCall& call, const StateRun& run, int head, int first, int end) {
    Chunk chunk;
    const float* read = run.read;
    for (int64_t t = 0; t < run.tokens; t += kTokens) {
      const int64_t left = run.tokens - t;
      Prepare(call, head, run.begin + t, static_cast<int>(left < kTokens ? left : kTokens), chunk);
      for (int column = first; column < end; column += kDeltaColumns) {
        const int width = end - column < kDeltaColumns ? end - column : kDeltaColumns;
        if (width > kLanes) {
          Columns<2>(call, chunk, head, column, width - kLanes, read, run.write);
        } else {
          Columns<1>(call, chunk, head, column, width, read, run.write);
        }
      }
      read = run.write;
    }
  }
};

}  // namespace sluice::cpu
