// Scores of positions by matrix instructions on 16-bit rows and keys of one type, with F32 sums. A
// warp has 16 positions of a tile and all heads.
#pragma once

#include "backend/cuda/attention/index_scores.cuh"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/mma.cuh"

namespace sluice::cuda {

template <class T>
struct MmaIndexScorer {
  static constexpr int kTiles = kIndexHeads / 8;

  const IndexParams& p;
  IndexSums& shared;
  T* const q;  // [kIndexHeads, width], then the keys
  const int width = IndexWidth(p.rows.head_dim, false);
  const int vectors = p.rows.head_dim / 8;  // of 16 bytes
  T* const k = q + kIndexHeads * width;

  __device__ void LoadHeads(int row, int first_head) {
    for (int i = threadIdx.x; i < kIndexHeads * vectors; i += kIndexThreads) {
      const int head = i / vectors, d = i % vectors * 8;
      const bool there = first_head + head < p.rows.q_heads;
      const int64_t at = row * p.rows.q_stride + int64_t{first_head + head} * p.rows.head_dim + d;
      CopyAsync<16>(SharedAddress(q + head * width + d),
                    static_cast<const T*>(p.rows.q) + (there ? at : 0), there);
    }
  }

  // The keys of a tile; of positions that the row does not see: zeros.
  __device__ void LoadKeys(const IndexRow& at, int first) {
    for (int i = threadIdx.x; i < kIndexTile * vectors; i += kIndexThreads) {
      const int position = i / vectors, d = i % vectors * 8;
      const KvRow row = IndexKeyAt(p, at, first + position);
      const bool there = row.block >= 0;
      const int64_t from = row.block * p.rows.k_stride + int64_t{row.offset} * p.rows.head_dim + d;
      CopyAsync<16>(SharedAddress(k + position * width + d),
                    static_cast<const T*>(p.rows.k) + (there ? from : 0), there);
    }
    CommitCopies();
    WaitCopies<0>();
    __syncthreads();
  }

  __device__ void AddTile(float* sums) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int matrix = lane / 8, row = lane % 8;
    const uint32_t keys =
        SharedAddress(k + (warp * 16 + matrix % 2 * 8 + row) * width + matrix / 2 * 8);
    const uint32_t heads = SharedAddress(q + (matrix / 2 * 8 + row) * width + matrix % 2 * 8);
    float products[kTiles][4] = {};
    for (int d = 0; d < p.rows.head_dim; d += 16) {
      uint32_t a[4];
      LoadMatrices(keys + d * 2, a);
#pragma unroll
      for (int tile = 0; tile < kTiles; tile += 2) {
        uint32_t b[4];
        LoadMatrices(heads + (tile * 8 * width + d) * 2, b);
        MultiplyAdd<T>(products[tile], a, b[0], b[1]);
        MultiplyAdd<T>(products[tile + 1], a, b[2], b[3]);
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {  // positions lane / 4 and, 8 behind it, another
      float sum = 0.0f;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          sum = __fmaf_rn(fmaxf(products[tile][2 * i + j], 0.0f),
                          shared.weights[tile * 8 + lane % 4 * 2 + j], sum);
        }
      }
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      if (lane % 4 == 0) sums[warp * 16 + lane / 4 + 8 * i] += sum;
    }
  }

  __device__ void Run(const IndexRow& at, int first) {
    shared.Clear();
    for (int head = 0; head < p.rows.q_heads; head += kIndexHeads) {
      __syncthreads();
      LoadHeads(at.row, head);
      shared.LoadWeights(p, at.row, head);
      for (int tile = 0; tile < kIndexPiece && first + tile < at.length; tile += kIndexTile) {
        __syncthreads();
        LoadKeys(at, first + tile);
        AddTile(shared.sums + tile);
      }
    }
    __syncthreads();
    shared.Store(p, at, first);
    __syncthreads();
  }
};

}  // namespace sluice::cuda

// Defines kernel `name`.
#define SLUICE_MMA_INDEX_SCORES(name, T)                                              \
  extern "C" __global__ void __launch_bounds__(128)                                   \
      name(const __grid_constant__ sluice::cuda::IndexParams params) {                \
    using namespace sluice::cuda;                                                     \
    extern __shared__ __align__(16) char memory[];                                    \
    __shared__ IndexSums shared;                                                      \
    WaitForInputs();                                                                  \
    MmaIndexScorer<T> scorer = {params, shared, reinterpret_cast<T*>(memory)};        \
    ForPieces(params, [&](const IndexRow& at, int first) { scorer.Run(at, first); }); \
  }
