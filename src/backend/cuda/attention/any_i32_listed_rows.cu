// Makes a sequence of its own of each token that attends to listed positions: as long as its list,
// with one query token. Padding gets a sequence without positions, which has no work.
#include "backend/cuda/attention/latent_params.h"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/sequence.cuh"

extern "C" __global__ void __launch_bounds__(128)
    any_i32_listed_rows(const __grid_constant__ sluice::cuda::ListedRowsParams p) {
  using namespace sluice::cuda;
  WaitForInputs();
  const int token = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (token > p.tokens) return;
  p.query_start_out[token] = token;
  if (token == p.tokens) return;
  const int sequence = SequenceOf(p.query_start, p.sequences, token);
  const int32_t* const list = p.listed + token * p.listed_stride;
  // The first that is below zero ends the list.
  int low = 0, high = sequence < 0 ? 0 : p.listed_max;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (list[middle] < 0) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  p.context_out[token] = low;
  p.sequence_of[token] = max(sequence, 0);
}
