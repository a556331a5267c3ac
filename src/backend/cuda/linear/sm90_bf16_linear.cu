// x in BF16; W in BF16, or in F8 whose codes are exact in BF16.
#include "backend/cuda/linear/linear_16bit.cuh"

LINEAR_16BIT(bf16, DType::kBF16, sluice::cuda::Bf16)
