// Places for the tokens of each expert. An expert has a thread block of its own, which reads all
// choices twice: how many fall to experts before it says where its places begin, and each warp
// counts the expert's among its own run of choices; then these get their places, in their order.
#include <cstdint>

#include "backend/cuda/experts/params.h"
#include "backend/cuda/simt/dependence.cuh"

namespace sluice::cuda {
namespace {

__device__ void GroupExpert(const GroupExpertsParams& p) {
  __shared__ int32_t before_of[kGroupWarps], mine_of[kGroupWarps], counted_of[kGroupWarps];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int expert = static_cast<int>(blockIdx.x);
  const int rounds = (p.count + static_cast<int>(kGroupWarps) * 32 - 1) / (kGroupWarps * 32);
  const int begin = warp * rounds * 32;
  const auto id = [&](int choice) {
    return choice < p.count ? p.ids[choice / p.top_k * p.ids_stride + choice % p.top_k] : p.experts;
  };
  const int real = p.counted == nullptr ? p.count : *p.counted * p.top_k;  // choices, no padding
  int before = 0, mine = 0, counted = 0;
#pragma unroll 4
  for (int i = 0; i < rounds; ++i) {
    const int choice = begin + 32 * i + lane;
    const int chosen = id(choice);
    before += __popc(__ballot_sync(~0u, chosen < expert));
    mine += __popc(__ballot_sync(~0u, chosen == expert));
    counted += __popc(__ballot_sync(~0u, chosen == expert && choice < real));
  }
  if (lane == 0) {
    before_of[warp] = before;
    mine_of[warp] = mine;
    counted_of[warp] = counted;
  }
  __syncthreads();
  int start = 0, end = 0;
  for (int w = 0; w < static_cast<int>(kGroupWarps); ++w) {
    start += before_of[w];
    end += mine_of[w];
  }
  end += start;
  if (threadIdx.x == 0) {
    p.starts[expert] = start;
    if (expert + 1 == p.experts) p.starts[p.experts] = end;
    if (p.counts != nullptr) {
      uint32_t sum = 0;
      for (int w = 0; w < static_cast<int>(kGroupWarps); ++w) sum += counted_of[w];
      p.counts[expert] += sum;
    }
  }
  int place = start;
  for (int w = 0; w < warp; ++w) place += mine_of[w];
#pragma unroll 4
  for (int i = 0; i < rounds; ++i) {
    const int choice = begin + 32 * i + lane;
    const bool taken = id(choice) == expert;
    const unsigned takers = __ballot_sync(~0u, taken);
    if (taken) {
      const int at = place + __popc(takers & ((1u << lane) - 1));
      const int token = choice / p.top_k;
      p.tokens[at] = token;
      p.places[token * p.places_stride + choice % p.top_k] = at;
    }
    place += __popc(takers);
  }
}

}  // namespace
}  // namespace sluice::cuda

extern "C" __global__ void __launch_bounds__(sluice::cuda::kGroupWarps * 32)
    any_group_experts(const __grid_constant__ sluice::cuda::GroupExpertsParams p) {
  sluice::cuda::WaitForInputs();
  sluice::cuda::GroupExpert(p);
}
