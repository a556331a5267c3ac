// Choices of experts in perfect balance, a thread each.
#include "backend/cuda/experts/params.h"
#include "backend/cuda/simt/dependence.cuh"

extern "C" __global__ void any_fake_balance_experts(
    const sluice::cuda::FakeBalanceExpertsParams p) {
  sluice::cuda::WaitForInputs();
  const int64_t choice =
      int64_t{blockIdx.x} * sluice::cuda::kFakeBalanceThreads + static_cast<int>(threadIdx.x);
  const int64_t token = choice / p.top_k, i = choice % p.top_k;
  if (token >= p.tokens) return;
  p.ids[token * p.ids_stride + i] = static_cast<int32_t>(choice % p.experts);
  p.weights[token * p.weights_stride + i] = 1.0f / static_cast<float>(p.top_k);
}
