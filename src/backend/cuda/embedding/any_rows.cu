// Rows gathered by number, and tokens of the step before put where they are due. Numbers outside
// give NaN and leave a token as it is.
#include "backend/cuda/embedding/params.h"
#include "backend/cuda/simt/dependence.cuh"

namespace sluice::cuda {
namespace {

// All bits set are NaN in every type of activations.
__device__ void SetAll(uint4* x) { *x = make_uint4(~0u, ~0u, ~0u, ~0u); }
template <class Unit>
__device__ void SetAll(Unit* x) {
  *x = static_cast<Unit>(~0u);
}

template <class Unit>
__device__ void GatherRow(const GatherRowsParams& p) {
  const int64_t from = p.rows[blockIdx.x];
  const bool there = from >= 0 && from < p.tokens;
  const Unit* x = reinterpret_cast<const Unit*>(p.x + (there ? from : 0) * p.x_stride);
  Unit* out = reinterpret_cast<Unit*>(p.out + int64_t{blockIdx.x} * p.out_stride);
  Unit nan;
  SetAll(&nan);
  for (int64_t i = threadIdx.x; i < p.row_units; i += blockDim.x) out[i] = there ? x[i] : nan;
}

}  // namespace

extern "C" __global__ void any_gather_rows(const GatherRowsParams p) {
  WaitForInputs();
  if (p.unit == 16) {
    GatherRow<uint4>(p);
  } else if (p.unit == 4) {
    GatherRow<uint32_t>(p);
  } else {
    GatherRow<uint16_t>(p);
  }
}

extern "C" __global__ void any_resolve_tokens(const ResolveTokensParams p) {
  WaitForInputs();
  const int64_t token = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (token >= p.tokens || p.ids[token] >= 0) return;
  const int64_t row = -1 - int64_t{p.ids[token]};
  if (row < p.rows) p.ids[token] = p.previous[row];
}

}  // namespace sluice::cuda
