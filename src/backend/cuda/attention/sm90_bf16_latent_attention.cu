// Latent attention in BF16.
#include "backend/cuda/attention/mla_attention.cuh"

SLUICE_MLA_ATTENTION(sm90_bf16_latent_attention, __nv_bfloat16)
