// Decode of few rows in 16 bits over KV in F8 codes, multiplied in bfloat16.
#include "backend/cuda/attention/cluster_attention.cuh"

SLUICE_CLUSTER_ATTENTION_SIZES(sm90_bf16_attention_cluster_f8_bf16, __nv_bfloat16, __nv_bfloat16,
                               kF8)
SLUICE_CLUSTER_ATTENTION_SIZES(sm90_bf16_attention_cluster_f8_f16, __nv_bfloat16, __half, kF8)
