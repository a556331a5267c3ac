// Latent attention in plain F32 arithmetic, for every type of rows and KV: a row of K of up to 576
// numbers is read once for its score and for its value.
#include "backend/cuda/attention/latent_params.h"
#include "backend/cuda/attention/plain_attention.cuh"

#define SLUICE_LATENT_ATTENTION(dim, values)                                                      \
  extern "C" __global__ void __launch_bounds__(128, 1)                                            \
      any_f32_latent_attention_##dim(const __grid_constant__ sluice::cuda::LatentParams params) { \
    sluice::cuda::WaitForInputs();                                                                \
    const int width = params.value_width;                                                         \
    sluice::cuda::RunPlain<sluice::cuda::PlainAttention<dim, values, true>>(                      \
        params.rows, {params.rows.head_dim - width, width, params.parts, params.listed});         \
  }
SLUICE_LATENT_ATTENTION(128, 128)
SLUICE_LATENT_ATTENTION(576, 512)
