// Attention of many rows in F16 over KV in F16.
#include "backend/cuda/attention/wide_attention.cuh"

SLUICE_WIDE_ATTENTION_SIZES(sm90_f16_attention_wide, __half)
