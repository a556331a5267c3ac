// Scores of positions in plain F32 arithmetic, for every type of rows and keys.
#include "backend/cuda/attention/index_scores.cuh"
#include "backend/cuda/attention/plain_attention.cuh"
#include "backend/cuda/simt/dependence.cuh"

namespace sluice::cuda {
namespace {

// A thread has these products: of heads that are kHeadStep apart with positions kPositionStep
// apart.
constexpr int kHeadStep = kIndexThreads / 8, kPositionStep = 8;
constexpr int kHeads = kIndexHeads / kHeadStep, kPositions = kIndexTile / kPositionStep;

struct Shared {
  IndexSums of_row;
  KvRow rows[kIndexTile];
  float key_scales[kIndexTile];
  float parts[kIndexThreads / 32][kIndexTile];  // what the heads of each warp give
};

struct Scorer {
  const IndexParams& p;
  Shared& shared;
  float* const q;  // [kIndexHeads, width], then the keys
  const int width = IndexWidth(p.rows.head_dim, true);
  const int dims = width - 4;  // zeros behind head_dim
  float* const k = q + kIndexHeads * width;

  __device__ void LoadHeads(int row, int first_head) {
    for (int i = threadIdx.x; i < kIndexHeads * dims; i += kIndexThreads) {
      const int head = i / dims, d = i % dims;
      const bool there = first_head + head < p.rows.q_heads && d < p.rows.head_dim;
      q[head * width + d] =
          there ? LoadActivation(
                      p.rows, p.rows.q,
                      row * p.rows.q_stride + int64_t{first_head + head} * p.rows.head_dim + d)
                : 0.0f;
    }
  }

  // The keys of a tile; of positions that the row does not see: zeros.
  __device__ void LoadKeys(const IndexRow& at, int first) {
    const AttentionParams& rows = p.rows;
    const int i = threadIdx.x;
    if (i < kIndexTile) {
      const KvRow row = IndexKeyAt(p, at, first + i);
      const bool scaled = rows.k_scale != nullptr && row.block >= 0;
      shared.rows[i] = row;
      shared.key_scales[i] =
          scaled ? rows.k_scale[row.block * rows.k_scale_stride + row.offset] : 1.0f;
    }
    __syncthreads();
    for (int j = threadIdx.x; j < kIndexTile * dims / 4; j += kIndexThreads) {
      const int position = j / (dims / 4), d = j % (dims / 4) * 4;
      const KvRow row = shared.rows[position];
      float4 four = {0.0f, 0.0f, 0.0f, 0.0f};
      if (row.block >= 0) {
        four = LoadFour(rows, rows.k,
                        row.block * rows.k_stride + int64_t{row.offset} * rows.head_dim + d,
                        min(4, rows.head_dim - d));
      }
      *reinterpret_cast<float4*>(&k[position * width + d]) = four;
    }
    __syncthreads();
  }

  __device__ void AddTile(float* sums) {
    const int h = threadIdx.x / 8, c = threadIdx.x % 8;
    float products[kHeads][kPositions] = {};
    for (int d = 0; d < dims; d += 4) {
      float4 mine[kHeads];
#pragma unroll
      for (int i = 0; i < kHeads; ++i)
        mine[i] = *reinterpret_cast<const float4*>(&q[(h + kHeadStep * i) * width + d]);
#pragma unroll
      for (int j = 0; j < kPositions; ++j) {
        const float4 key =
            *reinterpret_cast<const float4*>(&k[(c + kPositionStep * j) * width + d]);
#pragma unroll
        for (int i = 0; i < kHeads; ++i) {
          float& sum = products[i][j];
          sum = __fmaf_rn(mine[i].x, key.x, sum);
          sum = __fmaf_rn(mine[i].y, key.y, sum);
          sum = __fmaf_rn(mine[i].z, key.z, sum);
          sum = __fmaf_rn(mine[i].w, key.w, sum);
        }
      }
    }
#pragma unroll
    for (int j = 0; j < kPositions; ++j) {
      const int position = c + kPositionStep * j;
      const float factor = shared.key_scales[position];
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < kHeads; ++i) {
        sum = __fmaf_rn(fmaxf(products[i][j] * factor, 0.0f),
                        shared.of_row.weights[h + kHeadStep * i], sum);
      }
      sum += __shfl_xor_sync(0xffffffffu, sum, 8);
      sum += __shfl_xor_sync(0xffffffffu, sum, 16);
      if (threadIdx.x % 32 < 8) shared.parts[threadIdx.x / 32][position] = sum;
    }
    __syncthreads();
    const int i = threadIdx.x;
    if (i < kIndexTile) {
      float sum = shared.parts[0][i];
      for (int warp = 1; warp < kIndexThreads / 32; ++warp) sum += shared.parts[warp][i];
      sums[i] += sum;
    }
  }

  __device__ void Run(const IndexRow& at, int first) {
    shared.of_row.Clear();
    for (int head = 0; head < p.rows.q_heads; head += kIndexHeads) {
      __syncthreads();
      LoadHeads(at.row, head);
      shared.of_row.LoadWeights(p, at.row, head);
      for (int tile = 0; tile < kIndexPiece && first + tile < at.length; tile += kIndexTile) {
        __syncthreads();
        LoadKeys(at, first + tile);
        AddTile(shared.of_row.sums + tile);
      }
    }
    __syncthreads();
    shared.of_row.Store(p, at, first);
    __syncthreads();
  }
};

}  // namespace
}  // namespace sluice::cuda

extern "C" __global__ void __launch_bounds__(128)
    any_f32_index_scores(const __grid_constant__ sluice::cuda::IndexParams params) {
  using namespace sluice::cuda;
  extern __shared__ __align__(16) char memory[];
  __shared__ Shared shared;
  WaitForInputs();
  Scorer scorer = {params, shared, reinterpret_cast<float*>(memory)};
  ForPieces(params, [&](const IndexRow& at, int first) { scorer.Run(at, first); });
}
