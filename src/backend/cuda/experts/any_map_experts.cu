// Experts' numbers become those of the slots that hold them, a thread for each choice.
#include "backend/cuda/experts/params.h"
#include "backend/cuda/simt/dependence.cuh"

extern "C" __global__ void any_map_experts(const sluice::cuda::MapExpertsParams p) {
  sluice::cuda::WaitForInputs();
  const int64_t choice =
      int64_t{blockIdx.x} * sluice::cuda::kMapThreads + static_cast<int>(threadIdx.x);
  const int64_t token = choice / p.top_k, i = choice % p.top_k;
  if (token >= p.tokens) return;
  int32_t* const id = p.ids + token * p.ids_stride + i;
  const int32_t expert = *id;
  // Whole numbers add up to the same in any order.
  if (p.counts != nullptr && (p.counted == nullptr || token < *p.counted)) {
    atomicAdd(p.counts + expert, 1u);
  }
  uint32_t hash = static_cast<uint32_t>(p.positions[token]) * 0x9E3779B1u +
                  static_cast<uint32_t>(p.token_ids[token]) * 0x85EBCA77u;
  hash ^= hash >> 16;
  hash *= 0x7FEB352Du;
  hash ^= hash >> 15;
  const int32_t first = p.map[expert];
  const auto slots = static_cast<uint32_t>(p.map[expert + 1] - first);
  *id = p.map[p.experts + 1 + first + static_cast<int32_t>(__umulhi(hash, slots))];
}
