// x in F16; W in F16, or in F8 whose codes are exact in F16.
#include "backend/cuda/linear/linear_16bit.cuh"

LINEAR_16BIT(f16, DType::kF16, sluice::cuda::F16)
