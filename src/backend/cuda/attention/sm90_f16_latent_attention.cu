// Latent attention in F16.
#include "backend/cuda/attention/mla_attention.cuh"

SLUICE_MLA_ATTENTION(sm90_f16_latent_attention, __half)
