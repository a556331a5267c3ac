// What stands around the products of experts, of F32 rows, over any F32x16.
#pragma once

#include "backend/cpu/experts/kernels.h"
#include "backend/cpu/norm/norm_kernel.h"

namespace sluice::cpu {

template <class V>
struct ExpertsKernel {
  static void Combine(const CombineExpertsCall& call, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* weights = call.weights + row * call.weights_stride;
      const int32_t* places = call.places + row * call.places_stride;
      const float* residual =
          call.residual == nullptr ? nullptr : call.residual + row * call.residual_stride;
      NormKernel<V>::Map(call.width, call.out + row * call.out_stride, [&](const auto& load) {
        V sum = V::Zero();
        for (int i = 0; i < call.top_k; ++i) {
          sum = V::Fma(V::Set1(weights[i]), load(call.y + places[i] * call.y_stride), sum);
        }
        return residual == nullptr ? sum : sum + load(residual);
      });
    }
  }
};

}  // namespace sluice::cpu
