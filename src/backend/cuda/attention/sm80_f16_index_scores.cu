// Scores of positions in F16.
#include "backend/cuda/attention/mma_index_scores.cuh"

SLUICE_MMA_INDEX_SCORES(sm80_f16_index_scores, __half)
