// Two kernels over one arithmetic. Output (row, token) is
//   sum over slices 0..7, ascending, in F32, of (sum over the slice's pieces, k ascending, in the
//   matrix unit as the weight's policy has it)
// and a slice is the same run of k for every m, so that both kernels and every tile size give the
// same bits. Rows of W are the 16 rows of a matrix product, tokens its 8 columns.
//
//   Stream  a block has 16 * kRows rows of W and 8 * kTiles tokens; each of its eight warps sums a
//           slice, straight from memory to registers. For few tokens: all of W is in flight.
//   Tile    a block has 128 * kRows rows and 8 * kTiles tokens; each warp has its own rows and sums
//           the slices one after the other; x is staged in shared memory for all.
//
// A weight policy (weight_plain.cuh, weight_blocks.cuh) has Raw, Load, Multiply, X (the type of x)
// and the sizes of pieces and units.
#pragma once

#include "backend/cuda/linear/params.h"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/dequantize.cuh"
#include "backend/cuda/simt/mma.cuh"

namespace sluice::cuda {

__device__ __forceinline__ float LoadAs(DType type, const void* from, int64_t i) {
  if (type == DType::kF32) return static_cast<const float*>(from)[i];
  if (type == DType::kF16) return __half2float(static_cast<const __half*>(from)[i]);
  return __bfloat162float(static_cast<const __nv_bfloat16*>(from)[i]);
}
__device__ __forceinline__ void StoreAs(DType type, void* to, int64_t i, float v) {
  if (type == DType::kF32) {
    static_cast<float*>(to)[i] = v;
  } else if (type == DType::kF16) {
    static_cast<__half*>(to)[i] = __float2half_rn(v);
  } else {
    static_cast<__nv_bfloat16*>(to)[i] = __float2bfloat16_rn(v);
  }
}

__device__ __forceinline__ void Finish(const LinearParams& p, int row, int token, float sum) {
  if (row >= p.n || token >= p.m) return;
  if (p.bias != nullptr) sum = __fadd_rn(sum, LoadAs(p.bias_type, p.bias, row));
  if (p.residual != nullptr) {
    sum = __fadd_rn(sum, LoadAs(p.result, p.residual, token * p.residual_stride + row));
  }
  StoreAs(p.result, p.out, token * p.out_stride + row, sum);
}

// The two rows of W from which a lane takes its part of 16; rows behind n repeat the last.
__device__ __forceinline__ void RowsOf(const LinearParams& p, int first, int g,
                                       const uint8_t* (&rows)[2]) {
  const auto* w = static_cast<const uint8_t*>(p.weight);
  rows[0] = w + min(first + g, p.n - 1) * p.row_bytes;
  rows[1] = w + min(first + g + 8, p.n - 1) * p.row_bytes;
}

// The row of x that a token has; tokens behind m repeat the last.
__device__ __forceinline__ int RowOfX(const LinearParams& p, int token) {
  return min(token, p.m - 1);
}

// x in global memory. Not by loads for constants, which could be moved before the wait for x.
template <class X, int kTiles>
struct GlobalX {
  static constexpr int kWide = 16 / sizeof(X);
  const uint4* base;
  int offset[kTiles];
  template <class Params>
  __device__ __forceinline__ GlobalX(const Params& p, int token, int g)
      : base(static_cast<const uint4*>(p.x)) {
#pragma unroll
    for (int j = 0; j < kTiles; ++j) offset[j] = RowOfX(p, token + 8 * j + g) * p.x_stride;
  }
  __device__ __forceinline__ uint4 operator()(int j, int at) const {
    return base[offset[j] + at / kWide];
  }
  // Four elements of 16 bits.
  __device__ __forceinline__ uint2 Four(int j, int at) const {
    return reinterpret_cast<const uint2*>(base + offset[j])[at / 4];
  }
};

template <class Weight, int kRows, int kTiles, int kStep>
__device__ __forceinline__ void StreamStep(const LinearParams& p,
                                           const uint8_t* const (&rows)[kRows][2], int piece, int t,
                                           bool first, const GlobalX<typename Weight::X, kTiles>& x,
                                           float (&acc)[kRows][kTiles][4]) {
  typename Weight::Raw raw[kStep][kRows];
#pragma unroll
  for (int u = 0; u < kStep; ++u) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) raw[u][i] = Weight::Load(rows[i], piece + u, t, p.k);
  }
  if (first) WaitForInputs();  // for x; the first weights are on their way meanwhile
#pragma unroll
  for (int u = 0; u < kStep; ++u) {
    Weight::template Multiply<kRows, kTiles>(raw[u], piece + u, t, x, acc);
  }
}

// Adds the slices' sums in shared memory, which all warps are done with, and finishes the outputs.
template <int kRows, int kTiles>
__device__ __forceinline__ void SumSlices(const LinearParams& p, int row, int token, int slice,
                                          int lane, const float (&acc)[kRows][kTiles][4]) {
  constexpr int kHeight = 16 * kRows, kTokens = 8 * kTiles, kPitch = kHeight + 4;
  extern __shared__ uint4 shared[];
  const int g = lane / 4, t = lane % 4;
  // partial[slice][token][row]
  auto* partial = reinterpret_cast<float*>(shared);
  float* mine = partial + slice * kTokens * kPitch;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        mine[(8 * j + 2 * t + c % 2) * kPitch + 16 * i + g + c / 2 * 8] = acc[i][j][c];
      }
    }
  }
  __syncthreads();
  for (int at = threadIdx.x; at < kTokens * kHeight; at += kLinearThreads) {
    const float* first = partial + at / kHeight * kPitch + at % kHeight;
    float sum = 0.0f;
#pragma unroll
    for (int s = 0; s < kLinearSlices; ++s) sum = __fadd_rn(sum, first[s * kTokens * kPitch]);
    Finish(p, row + at % kHeight, token + at / kHeight, sum);
  }
}

template <class Weight, int kRows, int kTiles, int kStep, class Params>
__device__ __forceinline__ void StreamLinear(const Params& p, int token) {
  constexpr int kHeight = 16 * kRows;
  const int lane = threadIdx.x % 32, slice = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int row = blockIdx.y * kHeight;
  const uint8_t* rows[kRows][2];
#pragma unroll
  for (int i = 0; i < kRows; ++i) RowsOf(p, row + 16 * i, g, rows[i]);
  const GlobalX<typename Weight::X, kTiles> x(p, token, g);
  float acc[kRows][kTiles][4] = {};
  // Pieces that begin behind k hold nothing.
  const int pieces = (p.k + Weight::kPiece - 1) / Weight::kPiece;
  int piece = slice * p.units_per_slice * Weight::kPieces;
  const int end = min(piece + p.units_per_slice * Weight::kPieces, pieces);
  const int begin = piece;
  for (; piece + kStep <= end; piece += kStep) {
    StreamStep<Weight, kRows, kTiles, kStep>(p, rows, piece, t, piece == begin, x, acc);
  }
  for (; piece < end; ++piece) {
    StreamStep<Weight, kRows, kTiles, 1>(p, rows, piece, t, piece == begin, x, acc);
  }
  WaitForInputs();  // for the residual, where a slice has no piece
  SumSlices<kRows, kTiles>(p, row, token, slice, lane, acc);
}

// Copies the first `bytes` of 16 to shared memory, with zeros behind them.
__device__ __forceinline__ void CopyAsyncFirst(uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

// Bytes of blocks of rows on their way from W to a warp's own shared memory.
template <DType kWeight, int kHeight>
struct Fetch {
  static constexpr int kPitch = LinearFetchPitch(kWeight), kWords = kPitch / 16;
  static constexpr int kStageBytes = kHeight * kPitch;

  // Where a row's block `piece` begins.
  static __device__ __forceinline__ const uint8_t* Begin(const LinearParams& p, int row,
                                                         int piece) {
    return static_cast<const uint8_t*>(p.weight) + min(row, p.n - 1) * p.row_bytes +
           static_cast<int64_t>(piece) * LinearBlockBytes(kWeight);
  }
  static __device__ __forceinline__ void Start(const LinearParams& p, int row, int piece,
                                               int pieces, int lane, uint8_t* stage) {
    const uint8_t* end = static_cast<const uint8_t*>(p.weight) + p.n * p.row_bytes;
#pragma unroll
    for (int at = lane; at < kHeight * kWords; at += 32) {
      const uint8_t* begin = Begin(p, row + at / kWords, piece);
      const uint8_t* stop = begin + pieces * LinearBlockBytes(kWeight);
      const uint8_t* from = begin - reinterpret_cast<uintptr_t>(begin) % 16 + at % kWords * 16;
      if (from >= stop) continue;
      // The matrix may end within the last word.
      const int bytes = static_cast<int>(min(static_cast<int64_t>(16), end - from));
      CopyAsyncFirst(SharedAddress(stage + at / kWords * kPitch + at % kWords * 16), from, bytes);
    }
  }
};

// Stream for block formats: a lane's words of a block are few bytes each, at any even address, so a
// warp first fetches its rows' blocks as wide words into shared memory.
template <class Weight, int kRows, int kTiles, class Params>
__device__ __forceinline__ void FetchedStreamLinear(const Params& p, int token) {
  constexpr int kHeight = 16 * kRows, kBlocks = LinearFetchBlocks(Weight::kFormat);
  using Rows = Fetch<Weight::kFormat, kHeight>;
  extern __shared__ uint4 shared[];
  const int lane = threadIdx.x % 32, slice = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int row = blockIdx.y * kHeight;
  uint8_t* stages = reinterpret_cast<uint8_t*>(shared) + slice * kFetchStages * Rows::kStageBytes;
  const GlobalX<typename Weight::X, kTiles> x(p, token, g);
  float acc[kRows][kTiles][4] = {};
  const int pieces = p.k / Weight::kPiece, per_slice = p.units_per_slice * Weight::kPieces;
  const int begin = slice * per_slice, end = min(begin + per_slice, pieces);
  const auto start = [&](int piece) {
    if (piece < end) {
      Rows::Start(p, row, piece, min(kBlocks, end - piece), lane,
                  stages + (piece - begin) / kBlocks % kFetchStages * Rows::kStageBytes);
    }
    CommitCopies();
  };
  start(begin);
  for (int piece = begin; piece < end; piece += kBlocks) {
    start(piece + kBlocks);
    if (piece == begin) WaitForInputs();  // for x; the first weights are on their way meanwhile
    WaitCopies<1>();
    __syncwarp();
    const uint8_t* stage = stages + (piece - begin) / kBlocks % kFetchStages * Rows::kStageBytes;
    const uint8_t* rows[kRows][2];
#pragma unroll
    for (int i = 0; i < 2 * kRows; ++i) {
      const int r = i / 2 * 16 + i % 2 * 8 + g;
      const auto address = reinterpret_cast<uintptr_t>(Rows::Begin(p, row + r, piece));
      rows[i / 2][i % 2] = stage + r * Rows::kPitch + address % 16;
    }
#pragma unroll
    for (int u = 0; u < kBlocks; ++u) {
      if (piece + u >= end) continue;
      typename Weight::Raw raw[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) raw[i] = Weight::template LoadFrom<InShared>(rows[i], u, t);
      Weight::template Multiply<kRows, kTiles>(raw, piece + u, t, x, acc);
    }
    __syncwarp();
  }
  WaitForInputs();  // for the residual, where a slice has no piece
  WaitCopies<0>();
  __syncthreads();  // partial sums take the place of what was fetched
  SumSlices<kRows, kTiles>(p, row, token, slice, lane, acc);
}

// x of one unit in shared memory.
template <class X, int kPitch>
struct SharedX {
  const uint8_t* row;  // of the lane's token in the first tile
  int first;           // element of k with which the stage begins
  __device__ __forceinline__ uint4 operator()(int j, int at) const {
    return *reinterpret_cast<const uint4*>(row + 8 * j * kPitch +
                                           (at - first) * static_cast<int>(sizeof(X)));
  }
  __device__ __forceinline__ uint2 Four(int j, int at) const {
    return *reinterpret_cast<const uint2*>(row + 8 * j * kPitch + (at - first) * 2);
  }
};

template <class Weight, int kRows, int kTiles, int kStages, class Params>
__device__ __forceinline__ void TileLinear(const Params& p, int token) {
  using X = typename Weight::X;
  constexpr int kTokens = 8 * kTiles, kPieces = Weight::kPieces, kPitch = Weight::kPitch;
  constexpr int kStageBytes = kTokens * kPitch;
  extern __shared__ uint4 shared[];
  auto* stages = reinterpret_cast<uint8_t*>(shared);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int row = (blockIdx.y * 8 + warp) * 16 * kRows;
  const uint8_t* rows[kRows][2];
#pragma unroll
  for (int i = 0; i < kRows; ++i) RowsOf(p, row + 16 * i, g, rows[i]);
  const int pieces = (p.k + Weight::kPiece - 1) / Weight::kPiece;

  const auto fetch = [&](int unit) {
    if (unit < p.units) {
      constexpr int kPerRow = Weight::kUnit * static_cast<int>(sizeof(X)) / 16;
      uint8_t* stage = stages + unit % kStages * kStageBytes;
#pragma unroll
      for (int at = threadIdx.x; at < kTokens * kPerRow; at += kLinearThreads) {
        const uint4* from =
            static_cast<const uint4*>(p.x) + RowOfX(p, token + at / kPerRow) * p.x_stride;
        CopyAsync<16>(SharedAddress(stage + at / kPerRow * kPitch + at % kPerRow * 16),
                      from + unit * kPerRow + at % kPerRow, true);
      }
    }
    CommitCopies();
  };
  typename Weight::Raw raw[kPieces][kRows], next[kPieces][kRows];
  const auto load = [&](int unit, typename Weight::Raw(&to)[kPieces][kRows]) {
#pragma unroll
    for (int u = 0; u < kPieces; ++u) {
      const int piece = unit * kPieces + u;
      if (piece >= pieces) continue;
#pragma unroll
      for (int i = 0; i < kRows; ++i) to[u][i] = Weight::Load(rows[i], piece, t, p.k);
    }
  };
  load(0, raw);
  WaitForInputs();  // for x; the first weights are on their way meanwhile
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) fetch(s);
  float acc[kRows][kTiles][4] = {}, total[kRows][kTiles][4] = {};
  int left = p.units_per_slice;
  for (int unit = 0; unit < p.units; ++unit) {
    WaitCopies<kStages - 2>();
    __syncthreads();
    fetch(unit + kStages - 1);
    load(unit + 1, next);
    const SharedX<X, kPitch> x = {stages + unit % kStages * kStageBytes + g * kPitch,
                                  unit * Weight::kUnit};
#pragma unroll
    for (int u = 0; u < kPieces; ++u) {
      const int piece = unit * kPieces + u;
      if (piece < pieces) Weight::template Multiply<kRows, kTiles>(raw[u], piece, t, x, acc);
    }
#pragma unroll
    for (int u = 0; u < kPieces; ++u) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) raw[u][i] = next[u][i];
    }
    if (--left > 0 && unit + 1 < p.units) continue;
    left = p.units_per_slice;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          total[i][j][c] = __fadd_rn(total[i][j][c], acc[i][j][c]);
          acc[i][j][c] = 0.0f;
        }
      }
    }
  }
  // Turned round in shared memory, so that neighbouring lanes write neighbouring rows.
  WaitCopies<0>();
  __syncthreads();
  constexpr int kHeight = 16 * kRows, kOutPitch = kHeight + 4;
  float* mine = reinterpret_cast<float*>(shared) + warp * 16 * kOutPitch;
#pragma unroll
  for (int j = 0; j < kTiles; j += 2) {
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        mine[(c / 4 * 8 + 2 * t + c % 2) * kOutPitch + 16 * i + g + c / 2 % 2 * 8] =
            total[i][j + c / 4][c % 4];
      }
    }
    __syncwarp();
#pragma unroll
    for (int at = lane; at < 16 * kHeight; at += 32) {
      Finish(p, row + at % kHeight, token + 8 * j + at / kHeight,
             mine[at / kHeight * kOutPitch + at % kHeight]);
    }
  }
}

// A tile of a grouped product: the parameters of its expert's product alone, whose tokens are
// places, and the first of its places. p.m ends the expert's places, so that a row has the
// arithmetic of a product without others.
struct ExpertTile : LinearParams {
  const int32_t* tokens;  // null: the row of a place is the place
  int token = -1;         // below zero: there is no such tile
};
__device__ __forceinline__ int RowOfX(const ExpertTile& p, int token) {
  const int place = RowOfX(static_cast<const LinearParams&>(p), token);
  return p.tokens == nullptr ? place : p.tokens[place];
}

// The tile of kTokens places that this thread block has: the blockIdx.x-th of those of all experts,
// in their order. Each warp finds it by itself; a lane counts the tiles of neighbouring experts.
template <int kTokens>
__device__ __forceinline__ ExpertTile TakeTile(const GroupedLinearParams& p) {
  WaitForInputs();
  const int lane = threadIdx.x % 32, each = (p.experts + 31) / 32;
  const int begin = min(lane * each, p.experts), end = min(begin + each, p.experts);
  const auto tiles = [&](int e) { return (p.starts[e + 1] - p.starts[e] + kTokens - 1) / kTokens; };
  int count = 0;
  for (int e = begin; e < end; ++e) count += tiles(e);
  int before = count;
#pragma unroll
  for (int lanes = 1; lanes < 32; lanes *= 2) {
    const int other = __shfl_up_sync(~0u, before, lanes);
    if (lane >= lanes) before += other;
  }
  before -= count;
  const int wanted = static_cast<int>(blockIdx.x);
  const unsigned has = __ballot_sync(~0u, before <= wanted && wanted < before + count);
  ExpertTile tile;
  if (has == 0) return tile;
  int expert = begin, skip = wanted - before;
  if (lane == __ffs(has) - 1) {
    for (int of_expert = tiles(expert); skip >= of_expert; of_expert = tiles(expert)) {
      skip -= of_expert;
      ++expert;
    }
  }
  expert = __shfl_sync(~0u, expert, __ffs(has) - 1);
  skip = __shfl_sync(~0u, skip, __ffs(has) - 1);
  static_cast<LinearParams&>(tile) = p.each;
  tile.weight = static_cast<const uint8_t*>(p.each.weight) + expert * p.expert_bytes;
  if (p.each.bias != nullptr)
    tile.bias = static_cast<const uint8_t*>(p.each.bias) + expert * p.bias_bytes;
  tile.m = p.starts[expert + 1];
  tile.tokens = p.tokens;
  tile.token = p.starts[expert] + skip * kTokens;
  return tile;
}

}  // namespace sluice::cuda

// Two entries of a kernel, for one product and for grouped ones. `step`: pieces of a row that a
// warp has in flight; `blocks`: how many blocks a multiprocessor is to hold; last the weight
// policy.
#define LINEAR_ENTRIES(name, tokens, blocks, function)                               \
  extern "C" __global__ void __launch_bounds__(sluice::cuda::kLinearThreads, blocks) \
      name(const __grid_constant__ sluice::cuda::LinearParams params) {              \
    function(params, static_cast<int>(blockIdx.x) * (tokens));                       \
  }                                                                                  \
  extern "C" __global__ void __launch_bounds__(sluice::cuda::kLinearThreads, blocks) \
      name##_grouped(const __grid_constant__ sluice::cuda::GroupedLinearParams p) {  \
    const sluice::cuda::ExpertTile tile = sluice::cuda::TakeTile<tokens>(p);         \
    if (tile.token >= 0) function(tile, tile.token);                                 \
  }
#define LINEAR_STREAM(name, rows, tiles, step, blocks, ...) \
  LINEAR_ENTRIES(name, 8 * tiles, blocks,                   \
                 (sluice::cuda::StreamLinear<__VA_ARGS__, rows, tiles, step>))
#define LINEAR_FETCHED(name, rows, tiles, blocks, ...) \
  LINEAR_ENTRIES(name, 8 * tiles, blocks,              \
                 (sluice::cuda::FetchedStreamLinear<__VA_ARGS__, rows, tiles>))
#define LINEAR_TILE(name, rows, tiles, stages, ...) \
  LINEAR_ENTRIES(name, 8 * tiles, 1, (sluice::cuda::TileLinear<__VA_ARGS__, rows, tiles, stages>))
