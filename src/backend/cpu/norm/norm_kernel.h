// Norms of F32 rows over any F32x16. Sums run in 32 lanes: element i goes to lane i mod 32, lanes
// are folded at the end, so a row's sum depends on its length alone.
#pragma once

#include "backend/cpu/norm/kernels.h"

namespace sluice::cpu {

template <class V>
struct NormKernel {
  static constexpr int kLanes = 16;

  // The sum of map(vector) over n elements.
  template <class Map>
  static float SumOf(const float* x, int64_t n, const Map& map) {
    V first = V::Zero(), second = V::Zero();
    int64_t i = 0;
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
      first = map(V::Load(x + i), first);
      second = map(V::Load(x + i + kLanes), second);
    }
    if (i + kLanes <= n) {
      first = map(V::Load(x + i), first);
      i += kLanes;
      if (i < n) second = map(V::LoadFirst(x + i, static_cast<int>(n - i)), second);
    } else if (i < n) {
      first = map(V::LoadFirst(x + i, static_cast<int>(n - i)), first);
    }
    return (first + second).Sum();
  }

  static float InverseRms(const float* x, int64_t n, float eps) {
    const float sum = SumOf(x, n, [](V v, V total) { return V::Fma(v, v, total); });
    return 1.0f / __builtin_sqrtf(sum / static_cast<float>(n) + eps);
  }

  // out[i] = body(inputs at i) for all i, the tail by parts of a vector.
  template <class Body>
  static void Map(int64_t n, float* out, const Body& body) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
      body([i](const float* p) { return V::Load(p + i); }).Store(out + i);
    if (i == n) return;
    const int rest = static_cast<int>(n - i);
    body([i, rest](const float* p) { return V::LoadFirst(p + i, rest); }).StoreFirst(out + i, rest);
  }

  static void Scale(const float* x, const float* weight, float inverse, int64_t n, float* out) {
    const V factor = V::Set1(inverse);
    Map(n, out, [&](const auto& load) { return load(x) * factor * load(weight); });
  }

  static void Norm(const NormCall& call, int64_t begin, int64_t end) {
    const int64_t n = call.hidden;
    for (int64_t row = begin; row < end; ++row) {
      const float* x = call.x + row * call.x_stride;
      float* out = call.out + row * call.out_stride;
      if (call.residual != nullptr) {
        float* residual = call.residual + row * call.residual_stride;
        const V scale = V::Set1(call.scale != nullptr ? *call.scale : 1.0f);
        Map(n, residual, [&](const auto& load) { return (load(x) + load(residual)) * scale; });
        x = residual;
      }
      if (call.weight == nullptr) {
        Map(n, out, [&](const auto& load) { return load(x); });
        continue;
      }
      if (!call.center) {
        Scale(x, call.weight, InverseRms(x, n, call.eps), n, out);
        continue;
      }
      const float mean =
          SumOf(x, n, [](V v, V total) { return total + v; }) / static_cast<float>(n);
      Map(n, out, [&](const auto& load) { return load(x) - V::Set1(mean); });
      Scale(out, call.weight, InverseRms(out, n, call.eps), n, out);
      if (call.bias != nullptr)
        Map(n, out, [&](const auto& load) { return load(out) + load(call.bias); });
    }
  }

  static void QkNorm(const QkNormCall& call, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int h = 0; h < call.heads; ++h) {
        float* head = call.qkv + row * call.stride + int64_t{h} * call.head_dim;
        const float* weight = h < call.q_heads ? call.q_weight : call.k_weight;
        Scale(head, weight, InverseRms(head, call.head_dim, call.eps), call.head_dim, head);
      }
    }
  }
};

}  // namespace sluice::cpu
