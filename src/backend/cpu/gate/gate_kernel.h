// Gates of F32 rows over any F32x16.
#pragma once

#include "backend/cpu/activation/activation_kernel.h"
#include "backend/cpu/gate/kernels.h"
#include "backend/cpu/norm/norm_kernel.h"

namespace sluice::cpu {

template <class V>
struct GateKernel {
  static void GatedNorm(const GatedNormCall& call, int64_t begin, int64_t end) {
    const V before = V::Set1(call.gate_scale), behind = V::Set1(call.out_scale);
    for (int64_t row = begin; row < end; ++row) {
      for (int h = 0; h < call.heads; ++h) {
        const int64_t at = int64_t{h} * call.head_dim;
        const float* x = call.x + row * call.x_stride + at;
        const float* gate = call.gate + row * call.gate_stride + at;
        float* out = call.out + row * call.out_stride + at;
        if (call.weight == nullptr) {
          NormKernel<V>::Map(call.head_dim, out, [&](const auto& load) {
            return load(x) * ActivationKernel<V>::SiluOf(load(gate) * before) * behind;
          });
          continue;
        }
        const float* weight = call.weight + h * call.weight_step;
        if (call.gate_first) {
          NormKernel<V>::Map(call.head_dim, out, [&](const auto& load) {
            return load(x) * ActivationKernel<V>::SiluOf(load(gate) * before);
          });
          const float inverse = NormKernel<V>::InverseRms(out, call.head_dim, call.eps);
          NormKernel<V>::Scale(out, weight, inverse * call.out_scale, call.head_dim, out);
          continue;
        }
        const V factor = V::Set1(NormKernel<V>::InverseRms(x, call.head_dim, call.eps));
        NormKernel<V>::Map(call.head_dim, out, [&](const auto& load) {
          return load(x) * factor * load(weight) *
                 ActivationKernel<V>::SiluOf(load(gate) * before) * behind;
        });
      }
    }
  }

  static void SigmoidGate(const SigmoidGateCall& call, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* x = call.x + row * call.x_stride;
      const float* gate = call.gate + row * call.gate_stride;
      NormKernel<V>::Map(call.width, x, [&](const auto& load) {
        return load(x) / (V::Set1(1.0f) + Exp(V::Zero() - load(gate)));
      });
    }
  }

  static void ScaleAdd(const ScaleAddCall& call, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* x = call.x + row * call.x_stride;
      const float* residual = call.residual + row * call.residual_stride;
      const V gate = V::Set1(call.gate[row * call.gate_stride]);
      const V factor = V::Set1(1.0f) / (V::Set1(1.0f) + Exp(V::Zero() - gate));
      NormKernel<V>::Map(call.width, call.out + row * call.out_stride,
                         [&](const auto& load) { return V::Fma(load(x), factor, load(residual)); });
    }
  }
};

}  // namespace sluice::cpu
