// x in F32, or staged as F32; W in plain formats. The kernels named _any take rows of W of any
// length and alignment.
#include "backend/cuda/linear/kernel_list.h"
#include "backend/cuda/linear/linear_kernel.cuh"
#include "backend/cuda/linear/weight_plain.cuh"

namespace {
using sluice::DType;
using sluice::cuda::Exact;
}  // namespace

#define STREAM(name, type, tokens, rows, tiles, step, blocks) \
  LINEAR_STREAM(name##_stream_##tokens, rows, tiles, step, blocks, Exact<DType::type, true>)
#define TILE(name, type, tokens, rows, tiles, stages) \
  LINEAR_TILE(name##_tile_##tokens, rows, tiles, stages, Exact<DType::type, true>)
#define ANY(name, type, tokens, rows, tiles, step, blocks) \
  LINEAR_STREAM(name##_any_##tokens, rows, tiles, step, blocks, Exact<DType::type, false>)

#define PLAIN(name, type) \
  LINEAR_LIST_PLAIN(STREAM, TILE, name, type) LINEAR_LIST_ANY(ANY, name, type)

LINEAR_PLAIN_FORMATS(PLAIN)
