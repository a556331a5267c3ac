// x in F32, or staged as F32; W in plain formats. The kernels named _any take rows of W of any
// length and alignment.
#include "backend/cuda/linear/linear_kernel.cuh"
#include "backend/cuda/linear/weight_plain.cuh"

namespace {
using sluice::DType;
using sluice::cuda::Exact;
}  // namespace

#define LINEAR_EXACT(name, type)                                        \
  LINEAR_STREAM(name##_stream_8, 1, 1, 4, 2, Exact<DType::type, true>)  \
  LINEAR_STREAM(name##_stream_32, 2, 4, 1, 2, Exact<DType::type, true>) \
  LINEAR_TILE(name##_tile_64, 1, 8, 4, Exact<DType::type, true>)        \
  LINEAR_STREAM(name##_any_8, 1, 1, 1, 2, Exact<DType::type, false>)

LINEAR_EXACT(f32, kF32)
LINEAR_EXACT(f16, kF16)
LINEAR_EXACT(bf16, kBF16)
LINEAR_EXACT(f8, kF8E4M3)
