// Scores of positions in BF16.
#include "backend/cuda/attention/mma_index_scores.cuh"

SLUICE_MMA_INDEX_SCORES(sm80_bf16_index_scores, __nv_bfloat16)
