// Decode of few half-precision rows over half-precision KV.
#include "backend/cuda/attention/cluster_attention.cuh"

SLUICE_CLUSTER_ATTENTION_SIZES(sm90_f16_attention_cluster, __half, __half, kPlain)
