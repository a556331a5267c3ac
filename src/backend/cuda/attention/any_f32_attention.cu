// Attention in plain F32 arithmetic for every type of rows and KV and every size of heads up to
// 256.
#include "backend/cuda/attention/plain_attention.cuh"

#define SLUICE_PLAIN_ATTENTION(dim)                                                           \
  extern "C" __global__ void __launch_bounds__(128, 3)                                        \
      any_f32_attention_##dim(const __grid_constant__ sluice::cuda::AttentionParams params) { \
    sluice::cuda::WaitForInputs();                                                            \
    sluice::cuda::RunPlain<sluice::cuda::PlainAttention<dim, dim, false>>(                    \
        params, {0, params.head_dim, 1});                                                     \
  }
SLUICE_PLAIN_ATTENTION(64)
SLUICE_PLAIN_ATTENTION(128)
SLUICE_PLAIN_ATTENTION(256)
