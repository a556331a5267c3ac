// Decode of rows in 16 bits over KV in F8 codes, multiplied in bfloat16.
#include "backend/cuda/attention/stream_attention.cuh"

SLUICE_STREAM_ATTENTION_SIZES(sm90_bf16_attention_stream_f8_bf16, __nv_bfloat16, __nv_bfloat16, kF8)
SLUICE_STREAM_ATTENTION_SIZES(sm90_bf16_attention_stream_f8_f16, __nv_bfloat16, __half, kF8)
