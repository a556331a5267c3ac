// Residual streams of F32 rows over any F32x16.
#pragma once

#include "backend/cpu/norm/norm_kernel.h"
#include "backend/cpu/simd/math.h"
#include "backend/cpu/streams/kernels.h"
#include "ops/streams.h"

namespace sluice::cpu {

template <class V>
struct StreamsKernel {
  static constexpr int kLanes = 16, kMost = ops::kStreamsMax;

  // body(at, lanes) for all parts of n numbers.
  template <class Body>
  static void ForParts(int64_t n, const Body& body) {
    for (int64_t at = 0; at < n; at += kLanes)
      body(at, static_cast<int>(n - at < kLanes ? n - at : kLanes));
  }

  // The mix of each of `rows` rows of coefficients by the token's routes.
  static void Mix(const StreamsCall& call, int64_t token, int rows, float* mix) {
    float routes[kLanes];
    Tanh(V::LoadFirst(call.routes + token * call.routes_stride, call.count)).Store(routes);
    for (int row = 0; row < rows; ++row) {
      const float* coefficients = call.coefficients + row * call.coefficients_stride;
      float sum = 0.0f;
      for (int k = 0; k < call.count; ++k) sum = __builtin_fmaf(coefficients[k], routes[k], sum);
      mix[row] = sum;
    }
  }

  static void Predict(const StreamsCall& call, int64_t begin, int64_t end) {
    const int n = call.count;
    for (int64_t token = begin; token < end; ++token) {
      float* streams = call.streams + token * call.streams_stride;
      const float* added = call.other == nullptr ? nullptr : call.other + token * call.other_stride;
      float mix[kMost * kMost];
      Mix(call, token, n * n, mix);
      ForParts(call.width, [&](int64_t at, int lanes) {
        V before[kMost];
        for (int j = 0; j < n; ++j) {
          before[j] = V::LoadFirst(streams + j * call.width + at, lanes);
          if (added != nullptr && j > 0) before[j] = before[j] + V::LoadFirst(added + at, lanes);
        }
        for (int i = 0; i < n; ++i) {
          V sum = before[i];
          for (int j = 0; j < n; ++j) sum = V::Fma(before[j], V::Set1(mix[i * n + j]), sum);
          sum.StoreFirst(streams + i * call.width + at, lanes);
          if (i == 0) sum.StoreFirst(call.out + token * call.out_stride + at, lanes);
        }
      });
    }
  }

  static void Correct(const StreamsCall& call, int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      float* streams = call.streams + token * call.streams_stride;
      const float* x = call.other + token * call.other_stride;
      float mix[kMost];
      Mix(call, token, call.count, mix);
      ForParts(call.width, [&](int64_t at, int lanes) {
        const V change = V::LoadFirst(x + at, lanes) - V::LoadFirst(streams + at, lanes);
        for (int i = 0; i < call.count; ++i) {
          float* stream = streams + i * call.width + at;
          const V sum = V::Fma(change, V::Set1(1.0f + mix[i]), V::LoadFirst(stream, lanes));
          sum.StoreFirst(stream, lanes);
          if (i > 0) continue;
          const V scale =
              call.scale == nullptr ? V::Set1(1.0f) : V::LoadFirst(call.scale + at, lanes);
          (sum * scale).StoreFirst(call.out + token * call.out_stride + at, lanes);
        }
      });
    }
  }

  static void Level(const StreamsCall& call, int64_t begin, int64_t end) {
    const auto mean_square = [&](const float* x) {
      const float sum =
          NormKernel<V>::SumOf(x, call.width, [](V v, V total) { return V::Fma(v, v, total); });
      return sum / static_cast<float>(call.width);
    };
    for (int64_t token = begin; token < end; ++token) {
      float* streams = call.streams + token * call.streams_stride;
      const float first = __builtin_sqrtf(mean_square(streams));
      V factors[kMost];
      for (int i = 1; i < call.count; ++i) {
        const float own = mean_square(streams + i * call.width);
        const float square = own < ops::kMeanSquareMin ? ops::kMeanSquareMin : own;
        factors[i] = V::Set1(first / __builtin_sqrtf(square));
      }
      ForParts(call.width, [&](int64_t at, int lanes) {
        V sum = V::LoadFirst(streams + at, lanes);
        for (int i = 1; i < call.count; ++i) {
          float* stream = streams + i * call.width + at;
          const V leveled = V::LoadFirst(stream, lanes) * factors[i];
          sum = sum + leveled;
          if (call.out == nullptr) leveled.StoreFirst(stream, lanes);
        }
        if (call.out == nullptr) return;
        (sum / V::Set1(static_cast<float>(call.count)))
            .StoreFirst(call.out + token * call.out_stride + at, lanes);
      });
    }
  }
};

}  // namespace sluice::cpu
