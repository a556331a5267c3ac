// Attention of many query rows on warpgroup products (sm_90a). A thread block has 128 rows of one
// KV head, two warpgroups 64 of them each (wide_consumer.cuh). A third (wide_producer.cuh) fills
// two rings in shared memory with blocks of 64 positions of K and V by the copy engine, and the
// next tile's Q. While the scores of a block become weights, the products of the block before with
// V run, and those of the other warpgroup.
//
// The arithmetic and its order are those of mma_attention.cuh, so a row's bits are the same there
// and here.
#pragma once

#include "backend/cuda/attention/wide_consumer.cuh"
#include "backend/cuda/simt/dependence.cuh"

namespace sluice::cuda {

template <int kDim>
__device__ void MakeBarriers(WideShared<kDim>& shared) {
  constexpr int kWarps = 8;  // that free what they have read
  for (int i = 0; i < kWideStages; ++i) {
    InitBarrier(SharedAddress(&shared.k_full[i]), 1);
    InitBarrier(SharedAddress(&shared.v_full[i]), 1);
    InitBarrier(SharedAddress(&shared.k_free[i]), kWarps);
    InitBarrier(SharedAddress(&shared.v_free[i]), kWarps);
  }
  for (int i = 0; i < 2; ++i) {
    InitBarrier(SharedAddress(&shared.q_full[i]), 64);          // each lane, and its copies
    InitBarrier(SharedAddress(&shared.q_free[i]), kWarps + 2);  // and those that bring K and V
    InitBarrier(SharedAddress(&shared.tile_full[i]), 1);
  }
  PublishBarriers();
}

template <class T, int kDim>
__device__ void RunWideAttention(const AttentionParams& p, const KvMaps& maps) {
  using Shared = WideShared<kDim>;
  static_assert(sizeof(Shared) <= WideSharedBytes(kDim));
  extern __shared__ __align__(1024) char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  if (SharedAddress(memory) != kWideBase) __trap();
  if (threadIdx.x == 0) MakeBarriers<kDim>(shared);
  WaitForInputs();
  __syncthreads();
  if (threadIdx.x >= 256) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    WideProducer<kDim>{p, maps, shared}.Run();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int group = static_cast<int>(threadIdx.x) / 128;
    if (ScoresAreProducts(p)) {
      WideConsumer<T, kDim, false>(p, shared, group).Run();
    } else {
      WideConsumer<T, kDim, true>(p, shared, group).Run();
    }
  }
}

}  // namespace sluice::cuda

// Defines kernel `name` for one size of heads.
#define SLUICE_WIDE_ATTENTION(name, T, dim)                              \
  extern "C" __global__ void __launch_bounds__(384, 1)                   \
      name(const __grid_constant__ sluice::cuda::AttentionParams params, \
           const __grid_constant__ sluice::cuda::KvMaps maps) {          \
    sluice::cuda::RunWideAttention<T, dim>(params, maps);                \
  }

// Kernels `name`_64 and so on, one for each size of heads.
#define SLUICE_WIDE_ATTENTION_SIZES(name, T) \
  SLUICE_WIDE_ATTENTION(name##_64, T, 64)    \
  SLUICE_WIDE_ATTENTION(name##_96, T, 96)    \
  SLUICE_WIDE_ATTENTION(name##_128, T, 128)
