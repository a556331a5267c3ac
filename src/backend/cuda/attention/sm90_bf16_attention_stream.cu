// Decode of bfloat16 rows over bfloat16 KV.
#include "backend/cuda/attention/stream_attention.cuh"

SLUICE_STREAM_ATTENTION_SIZES(sm90_bf16_attention_stream, __nv_bfloat16, __nv_bfloat16, kPlain)
