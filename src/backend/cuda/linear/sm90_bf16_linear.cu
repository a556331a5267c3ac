// x in BF16; W in BF16, or in F8 whose codes are exact in BF16.
#include "backend/cuda/linear/linear_kernel.cuh"
#include "backend/cuda/linear/weight_plain.cuh"

namespace {
using sluice::DType;
using sluice::cuda::Chained;
using W16 = Chained<DType::kBF16, __nv_bfloat16, true>;
using W16Any = Chained<DType::kBF16, __nv_bfloat16, false>;
using W8 = Chained<DType::kF8E4M3, __nv_bfloat16, true>;
using W8Any = Chained<DType::kF8E4M3, __nv_bfloat16, false>;
}  // namespace

LINEAR_STREAM(bf16_stream_8, 1, 1, 8, 2, W16)
LINEAR_STREAM(bf16_stream_16, 1, 2, 8, 2, W16)
LINEAR_STREAM(bf16_stream_32, 2, 4, 2, 2, W16)
LINEAR_STREAM(bf16_stream_64, 2, 8, 2, 2, W16)
LINEAR_TILE(bf16_tile_64, 2, 8, 4, W16)
LINEAR_STREAM(bf16_any_8, 1, 1, 1, 2, W16Any)

LINEAR_STREAM(f8_stream_8, 1, 1, 4, 2, W8)
LINEAR_STREAM(f8_stream_16, 1, 2, 4, 2, W8)
LINEAR_STREAM(f8_stream_32, 2, 4, 2, 2, W8)
LINEAR_STREAM(f8_stream_64, 2, 8, 1, 1, W8)
LINEAR_STREAM(f8_any_8, 1, 1, 1, 2, W8Any)
