// What the kernels that find the experts of a token take from the op's descriptor.
#pragma once

#include "backend/cuda/experts/params.h"
#include "ops/experts.h"

namespace sluice::cuda {

// Of one token; logits, ids and weights, with their strides, are the caller's to name.
inline RouteExpertsParams RouteParamsOf(const ops::RouteExperts::Desc& desc,
                                        const ops::Tensor& bias, const ops::Tensor& scales) {
  return {.logits = nullptr,
          .bias = bias.ptr<float>(),
          .scales = scales.ptr<float>(),
          .ids = nullptr,
          .weights = nullptr,
          .logits_stride = 0,
          .ids_stride = 0,
          .weights_stride = 0,
          .tokens = 1,
          .experts = desc.experts,
          .top_k = desc.top_k,
          .groups = desc.groups,
          .groups_kept = desc.groups_kept,
          .scale = desc.scale,
          .sigmoid = desc.scoring == ops::RouterScoring::kSigmoid ? 1u : 0u,
          .renormalize = desc.renormalize ? 1u : 0u,
          .by_softmax = desc.scoring == ops::RouterScoring::kSoftmaxBiased ? 1u : 0u};
}

}  // namespace sluice::cuda
