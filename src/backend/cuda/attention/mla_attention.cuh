// The latent attention kernel of mla_shared.cuh.
#pragma once

#include "backend/cuda/attention/mla_consumer.cuh"
#include "backend/cuda/simt/dependence.cuh"

namespace sluice::cuda {

// `arrivals`: of threads that bring a block.
__device__ inline void MakeMlaBarriers(MlaShared& shared, int arrivals) {
  constexpr int kWarps = 8;  // that free what they have read
  for (int i = 0; i < kMlaSlots; ++i) {
    InitBarrier(SharedAddress(&shared.full[i]), arrivals);
    InitBarrier(SharedAddress(&shared.free[i]), kWarps);
  }
  InitBarrier(SharedAddress(&shared.weights_full), 128);
  InitBarrier(SharedAddress(&shared.weights_free), 128);
  PublishBarriers();
}

// One warpgroup brings what two others work on: bring(tile), with kFew registers a thread, so that
// those have kMany.
template <class T, int kFew, int kMany, class Bring>
__device__ __forceinline__ void RunMlaRoles(const LatentParams& p, MlaShared& shared,
                                            const Bring& bring) {
  Worklist work(p.rows, shared.items);
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kFew));
    while (const Tile* const tile = work.Next(p.rows)) bring(*tile);
  } else if (threadIdx.x < 256) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kMany));
    MlaScorer<T> scorer(p, shared);
    while (const Tile* const tile = work.Next(p.rows)) scorer.Run(*tile);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kMany));
    MlaFollower<T> follower(p, shared);
    while (const Tile* const tile = work.Next(p.rows)) follower.Run(*tile);
  }
}

// The block's shared memory, once its barriers are there and the inputs are.
__device__ __forceinline__ MlaShared& BeginMla(char* memory, int arrivals) {
  MlaShared& shared = *reinterpret_cast<MlaShared*>(memory);
  if (SharedAddress(memory) % 1024 != 0) __trap();
  if (threadIdx.x == 0) MakeMlaBarriers(shared, arrivals);
  WaitForInputs();
  __syncthreads();
  return shared;
}

template <class T>
__device__ void RunMlaAttention(const LatentParams& p, const TensorMap& map) {
  extern __shared__ __align__(1024) char memory[];
  MlaShared& shared = BeginMla(memory, 1);
  MlaProducer producer = {p.rows, map, shared};
  RunMlaRoles<T, 24, 240>(p, shared, [&](const Tile& tile) {
    if (threadIdx.x < 32) producer.Bring(tile);
  });
}

// The same over lists, which all threads of the first warpgroup gather.
template <class T>
__device__ void RunListedMlaAttention(const LatentParams& p) {
  extern __shared__ __align__(1024) char memory[];
  MlaShared& shared = BeginMla(memory, 128);
  MlaGatherer gatherer = {p, shared};
  RunMlaRoles<T, 40, 232>(p, shared, [&](const Tile& tile) { gatherer.Bring(tile); });
}

}  // namespace sluice::cuda

// Defines kernel `name`, and `name`_listed.
#define SLUICE_MLA_ATTENTION(name, T)                                            \
  extern "C" __global__ void __launch_bounds__(384, 1)                           \
      name(const __grid_constant__ sluice::cuda::LatentParams params,            \
           const __grid_constant__ sluice::cuda::TensorMap map) {                \
    sluice::cuda::RunMlaAttention<T>(params, map);                               \
  }                                                                              \
  extern "C" __global__ void __launch_bounds__(384, 1)                           \
      name##_listed(const __grid_constant__ sluice::cuda::LatentParams params) { \
    sluice::cuda::RunListedMlaAttention<T>(params);                              \
  }
