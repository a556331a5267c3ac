// Decode of half-precision rows over half-precision KV.
#include "backend/cuda/attention/stream_attention.cuh"

SLUICE_STREAM_ATTENTION_SIZES(sm90_f16_attention_stream, __half, __half, kPlain)
