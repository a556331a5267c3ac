// Decode of few bfloat16 rows over bfloat16 KV.
#include "backend/cuda/attention/cluster_attention.cuh"

SLUICE_CLUSTER_ATTENTION_SIZES(sm90_bf16_attention_cluster, __nv_bfloat16, __nv_bfloat16, kPlain)
