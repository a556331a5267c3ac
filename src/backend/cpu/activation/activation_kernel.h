// Activations of F32 rows over any F32x16.
#pragma once

#include "backend/cpu/activation/kernels.h"
#include "backend/cpu/norm/norm_kernel.h"
#include "backend/cpu/simd/math.h"
#include "ops/activation.h"

namespace sluice::cpu {

template <class V>
struct ActivationKernel {
  static constexpr int kLanes = 16;

  static V SiluOf(V x) { return x / (V::Set1(1.0f) + Exp(V::Zero() - x)); }

  // (1 + tanh(u)) / 2 = 1 / (1 + e^-2u), which keeps its digits where tanh is near -1.
  static V GeluTanhOf(V x) {
    const V cubic = V::Fma(x * x * x, V::Set1(0.044715f), x);
    return x / (V::Set1(1.0f) + Exp(cubic * V::Set1(-1.59576912160573071176f)));
  }

  // x times the share of a normal distribution below x, by the share above |x|, which keeps its
  // digits. The square's rounding is taken back, since the exponential would make it large.
  static V GeluErfOf(V x) {
    const V size = V::Min(V::Set1(16.0f), V::Abs(x));
    const V square = size * size;
    const V rest = V::Fma(size, size, V::Zero() - square);
    const V power = Exp(square * V::Set1(-0.5f)) * V::Fma(rest, V::Set1(-0.5f), V::Set1(1.0f));
    const V beyond = V::CopySign(size * (ScaledNormalTail(size) * power), x);
    return V::Choose(V::AtLeast(x, V::Zero()), x - beyond, beyond);
  }

  // Max gives its second operand where one is NaN.
  static V ReluSquaredOf(V x) {
    const V positive = V::Max(V::Zero(), x);
    return positive * positive;
  }

  template <V (*Act)(V)>
  static V GatedBy(V gate, V up) {
    return Act(gate) * up;
  }

  // Min and Max give their second operand where one is NaN.
  static V ClampedSwigluOf(V gate, V up) {
    const V limit = V::Set1(ops::kSwigluLimit);
    const V clamped = V::Min(limit, gate);
    const V other = V::Max(V::Zero() - limit, V::Min(limit, up));
    const V share = V::Set1(1.0f) + Exp(clamped * V::Set1(-ops::kSwigluSlope));
    return clamped / share * (other + V::Set1(1.0f));
  }

  template <V (*Act)(V)>
  static void Plain(const PlainCall& call, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* x = call.x + row * call.stride;
      int64_t i = 0;
      for (; i + kLanes <= call.width; i += kLanes) Act(V::Load(x + i)).Store(x + i);
      const int rest = static_cast<int>(call.width - i);
      if (rest > 0) Act(V::LoadFirst(x + i, rest)).StoreFirst(x + i, rest);
    }
  }

  template <V (*Both)(V, V)>
  static void Gated(const GatedCall& call, int64_t begin, int64_t end) {
    const V before = V::Set1(call.gate_scale), behind = V::Set1(call.out_scale);
    for (int64_t row = begin; row < end; ++row) {
      const float* gate = call.gate_up + row * call.in_stride;
      const float* up = gate + call.width;
      float* out = call.out + row * call.out_stride;
      int64_t i = 0;
      for (; i + kLanes <= call.width; i += kLanes)
        (Both(V::Load(gate + i) * before, V::Load(up + i)) * behind).Store(out + i);
      const int rest = static_cast<int>(call.width - i);
      if (rest > 0) {
        (Both(V::LoadFirst(gate + i, rest) * before, V::LoadFirst(up + i, rest)) * behind)
            .StoreFirst(out + i, rest);
      }
    }
  }

  static void SoftCap(const SoftCapCall& call, int64_t begin, int64_t end) {
    const V cap = V::Set1(call.cap);
    for (int64_t row = begin; row < end; ++row) {
      float* x = call.x + row * call.stride;
      int64_t i = 0;
      for (; i + kLanes <= call.width; i += kLanes) (cap * Tanh(V::Load(x + i) / cap)).Store(x + i);
      const int rest = static_cast<int>(call.width - i);
      if (rest > 0) (cap * Tanh(V::LoadFirst(x + i, rest) / cap)).StoreFirst(x + i, rest);
    }
  }

  // Max gives its second operand where one is NaN.
  static void GaussianTopK(const TopKCall& call, int64_t begin, int64_t end) {
    const auto count = static_cast<float>(call.width);
    for (int64_t row = begin; row < end; ++row) {
      float* x = call.x + row * call.stride;
      const float mean =
          NormKernel<V>::SumOf(x, call.width, [](V v, V total) { return total + v; }) / count;
      NormKernel<V>::Map(call.width, x, [&](const auto& load) { return load(x) - V::Set1(mean); });
      const float squares =
          NormKernel<V>::SumOf(x, call.width, [](V v, V total) { return V::Fma(v, v, total); });
      const V cutoff = V::Set1(call.deviations * __builtin_sqrtf(squares / count));
      NormKernel<V>::Map(call.width, x,
                         [&](const auto& load) { return V::Max(V::Zero(), load(x) - cutoff); });
    }
  }
};

}  // namespace sluice::cpu
