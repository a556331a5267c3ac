// Products of W and x in F8_E4M3 on the matrix units of sm_90a. Rows of W are the rows of a matrix
// instruction and tokens its columns, so that few tokens waste nothing. An output is, for each unit
// of 128 elements, k ascending,
//   acc = fma(sum of the unit by four instructions, scale of the unit, acc)
// whatever the tile, so all tiles give the same bits.
//
// A thread block has one or two warpgroups that multiply, with 64 rows of W each at most, a warp
// that fetches W and one that fetches x, through a ring of stages in shared memory. W is fetched
// before the wait for x, since no kernel writes weights. The thread blocks of a cluster have
// different rows and the same tokens; each fetches its share of x for all. A thread block walks
// over tiles, and the ring fills with those of the next tile while outputs are written.
#pragma once

#include "backend/cuda/linear/f8_params.h"
#include "backend/cuda/linear/linear_kernel.cuh"
#include "backend/cuda/simt/bulk_copy.cuh"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/element.cuh"
#include "backend/cuda/simt/warpgroup.cuh"

namespace sluice::cuda {

// Four neighbouring elements, where addresses allow words of four.
template <class T>
struct alignas(4 * sizeof(T)) Four {
  T v[4];
};

// Rows [row, row + Rows()) of an expert's W and the tokens from `token` on, which end before `end`.
// A product that is not grouped has one expert.
struct F8Tile {
  int row, token, end, expert;
};

// kBlocks: scales differ along k. kGrouped: each token is multiplied by the weight of its expert.
template <int kTokens, int kGroups, int kCluster, bool kBlocks, bool kGrouped>
struct F8Linear {
  // Tokens that instructions multiply at a time, and how many such products are under way while one
  // is added: the matrix units have work meanwhile, and no more registers than they need.
  static constexpr int kChunk = kTokens < 64 ? kTokens : 64, kChunks = kTokens / kChunk;
  static constexpr int kUnits = F8UnitsPerStage(kTokens);
  static constexpr int kShare = kTokens / kCluster;  // tokens of x that a thread block fetches
  static constexpr int kWarps = 4 * kGroups;
  static constexpr int kTurn = F8TurnTokens(kTokens);
  static constexpr int kSums = kTokens / 2, kPartial = kChunk / 2;
  static constexpr int kSteps = kUnits * kChunks, kDepth = F8Depth(kTokens);
  static_assert(kShare % 8 == 0 && (kUnits == 1 || kChunks == 1));

  const F8LinearParams& p;
  const uint32_t ring, full, empty;
  float* const turn;
  int* const first_tiles;  // [experts + 1], of tokens
  const int warp, lane, units;
  int stage = 0;
  uint32_t parity = 0;

  // Shared memory: the ring, the warpgroups' places to turn outputs round, the barriers, the table
  // of experts.
  __device__ F8Linear(const F8LinearParams& params, uint8_t* memory)
      : p(params),
        ring(SharedAddress(memory)),
        full(ring + static_cast<uint32_t>(RingBytes() + F8TurnBytes(kTokens, kGroups))),
        empty(full + 8 * kF8StagesMax),
        turn(reinterpret_cast<float*>(memory + RingBytes())),
        first_tiles(reinterpret_cast<int*>(memory + RingBytes() + F8TurnBytes(kTokens, kGroups) +
                                           kF8BarrierBytes)),
        warp(static_cast<int>(threadIdx.x) / 32),
        lane(static_cast<int>(threadIdx.x) % 32),
        units((params.k + kF8Unit - 1) / kF8Unit) {}

  // Two warpgroups always have all their rows, which spares registers.
  static constexpr int kAllRows = kGroups * kF8GroupRows;
  __device__ __forceinline__ int Rows() const { return kGroups == 2 ? kAllRows : p.rows; }
  __device__ __forceinline__ int StageBytes() const {
    return kGroups == 2 ? F8StageBytes(kTokens, kAllRows) : p.stage_bytes;
  }
  __device__ __forceinline__ int Stages() const {
    return kGroups == 2 ? F8Stages(kTokens, kGroups, kAllRows, kGrouped) : p.stages;
  }
  __device__ __forceinline__ int RingBytes() const {
    return F8RingBytes(Stages(), StageBytes(), kGroups, Rows());
  }

  // Parts of a stage: kUnits units of W, of x, of the scales of x, and two scales of W a unit.
  __device__ __forceinline__ uint32_t WeightAt(int unit) const {
    return ring + static_cast<uint32_t>(stage * StageBytes() + unit * Rows() * kF8UnitBytes);
  }
  __device__ __forceinline__ uint32_t TokensAt(int unit) const {
    return WeightAt(kUnits) + static_cast<uint32_t>(unit * kTokens * kF8UnitBytes);
  }
  __device__ __forceinline__ uint32_t TokenScalesAt(int unit) const {
    return TokensAt(kUnits) + static_cast<uint32_t>(unit * kTokens * 4);
  }
  __device__ __forceinline__ uint32_t WeightScalesAt(int unit) const {
    return TokenScalesAt(kUnits) + static_cast<uint32_t>(unit * 8);
  }
  __device__ __forceinline__ uint32_t Full() const { return full + 8 * stage; }
  __device__ __forceinline__ uint32_t Empty() const { return empty + 8 * stage; }
  __device__ __forceinline__ void Advance() {
    if (++stage < Stages()) return;
    stage = 0;
    parity ^= 1;
  }

  // Calls `visit(F8Tile)` for the tiles of this thread block.
  template <class Visit>
  __device__ __forceinline__ void ForTiles(const Visit& visit) {
    const int rank = kCluster > 1 ? static_cast<int>(ClusterRank()) : 0;
    const int bands = (p.row_tiles + kCluster - 1) / kCluster;
    const int token_tiles = kGrouped ? first_tiles[p.experts] : p.token_tiles;
    for (int tile = static_cast<int>(blockIdx.x) / kCluster; tile < bands * token_tiles;
         tile += static_cast<int>(gridDim.x) / kCluster) {
      visit(TileOf((tile / token_tiles * kCluster + rank) * Rows(), tile % token_tiles));
    }
  }
  __device__ __forceinline__ F8Tile TileOf(int row, int token_tile) const {
    if constexpr (!kGrouped) return {row, token_tile * kTokens, p.m, 0};
    int expert = 0;  // the last one whose tiles begin here or before; it has some
    for (int above = p.experts; above - expert > 1;) {
      const int middle = (expert + above) / 2;
      if (first_tiles[middle] <= token_tile) {
        expert = middle;
      } else {
        above = middle;
      }
    }
    const int token = p.starts[expert] + (token_tile - first_tiles[expert]) * kTokens;
    return {row, token, p.starts[expert + 1], expert};
  }

  // One warp; a lane has neighbouring experts.
  __device__ void CountTiles() const {
    const int each = (p.experts + 31) / 32;
    const int begin = min(lane * each, p.experts), end = min(begin + each, p.experts);
    const auto tiles = [&](int e) {
      return (p.starts[e + 1] - p.starts[e] + kTokens - 1) / kTokens;
    };
    int count = 0;
    for (int e = begin; e < end; ++e) count += tiles(e);
    int first = count;
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2) {
      const int other = __shfl_up_sync(~0u, first, lanes);
      if (lane >= lanes) first += other;
    }
    if (lane == 31) first_tiles[p.experts] = first;
    first -= count;
    for (int e = begin; e < end; ++e) {
      first_tiles[e] = first;
      first += tiles(e);
    }
  }

  __device__ void Begin() {
    if (threadIdx.x == 0) {
      // Of W and of x, each by one thread, and of the threads that copy scales one by one.
      constexpr int kArrivals = 2 + (kBlocks ? kScaleLanes : 0);
      for (int i = 0; i < Stages(); ++i) {
        InitBarrier(full + 8 * i, kArrivals);
        InitBarrier(empty + 8 * i, kCluster * kWarps);
      }
      PublishBarriers();
    }
    if constexpr (kGrouped) {
      WaitForInputs();
      if (warp == kWarps) CountTiles();
    }
    if constexpr (kCluster > 1) {
      SyncCluster();
    } else {
      __syncthreads();
    }
  }

  // One thread.
  __device__ void FetchWeight() {
    ForTiles([&](const F8Tile& tile) {
      const int row = tile.expert * p.n + tile.row;
      for (int unit = 0; unit < units; unit += kUnits) {
        WaitBarrier(Empty(), parity ^ 1);
        const int count = min(kUnits, units - unit);
        ArriveExpecting(Full(), static_cast<uint32_t>(count * Rows() * kF8UnitBytes));
        for (int i = 0; i < count; ++i)
          CopyBox(WeightAt(i), &p.w, (unit + i) * kF8Unit, row, Full());
        Advance();
      }
    });
  }

  // One warp.
  __device__ void FetchTokens() {
    if (lane == 0) PrefetchMap(&p.x);
    WaitForInputs();
    const int rank = kCluster > 1 ? static_cast<int>(ClusterRank()) : 0;
    ForTiles([&](const F8Tile& tile) {
      for (int unit = 0; unit < units; unit += kUnits) {
        WaitBarrier(Empty(), parity ^ 1);
        const int count = min(kUnits, units - unit);
        if (lane == 0) FetchTokens(unit, count, tile.token, rank);
        if (kBlocks && lane < kScaleLanes) FetchScales(unit, count, tile);
        Advance();
      }
    });
  }
  __device__ __forceinline__ void FetchTokens(int unit, int count, int token, int rank) const {
    const int scales = kBlocks && !kGrouped && p.x_blocks ? 4 : 0;
    ArriveExpecting(Full(), static_cast<uint32_t>(count * kTokens * (kF8UnitBytes + scales)));
    for (int i = 0; i < count; ++i) {
      const uint32_t to = TokensAt(i) + static_cast<uint32_t>(rank * kShare * kF8UnitBytes);
      const int column = (unit + i) * kF8Unit, first = token + rank * kShare;
      if constexpr (kCluster > 1) {
        CopyBoxToMany(to, &p.x, column, first, Full(), (1u << kCluster) - 1);
      } else {
        CopyBox(to, &p.x, column, first, Full());
      }
      if (scales == 0) continue;
      CopyBytes(TokenScalesAt(i), p.x_scales + int64_t{unit + i} * p.x_scale_stride + token,
                kTokens * 4, Full());
    }
  }
  // A lane has one scale of W: of a unit, and of one of the two blocks of rows that a tile may lie
  // in. Those of x begin at any token where tokens are grouped, so that lanes copy them, too.
  static constexpr int kScaleLanes = kGrouped ? 32 : 2 * kUnits;
  __device__ __forceinline__ void FetchScales(int unit, int count, const F8Tile& tile) const {
    const int i = lane / 2;
    if (p.w_blocks && i < count) {
      const int last = (p.n - 1) / kF8Unit;
      const int block = tile.expert * (last + 1) + min(tile.row / kF8Unit + lane % 2, last);
      CopyAsync<4>(WeightScalesAt(i) + lane % 2 * 4, p.w_scales + int64_t{block} * units + unit + i,
                   true);
    }
    if (kGrouped && p.x_blocks) {
      for (int at = lane; at < count * kTokens; at += 32) {
        const int of_unit = at / kTokens, token = min(tile.token + at % kTokens, p.m - 1);
        CopyAsync<4>(TokenScalesAt(of_unit) + at % kTokens * 4,
                     p.x_scales + int64_t{unit + of_unit} * p.x_scale_stride + token, true);
      }
    }
    ArriveWhenCopied(Full());
  }

  static __device__ __forceinline__ float2 SharedPair(uint32_t address) {
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address));
    return v;
  }

  // Puts a unit's products on the matrix units.
  __device__ __forceinline__ void Multiply(int i, int chunk, float (&partial)[kPartial]) const {
    const uint64_t a = SwizzledOperand(
        WeightAt(i) + static_cast<uint32_t>(warp / 4 * kF8GroupRows * kF8UnitBytes));
    const uint64_t b =
        SwizzledOperand(TokensAt(i) + static_cast<uint32_t>(chunk * kChunk * kF8UnitBytes));
    PinSums(partial);
    WarpgroupFence();
#pragma unroll
    for (int step = 0; step < kF8Unit / 32; ++step)
      MultiplyF8<kChunk>(partial, a + 2 * step, b + 2 * step, step > 0);
    WarpgroupCommit();
  }

  // Adds a unit's products; `high` says which of the two scales of W the thread's rows have.
  __device__ __forceinline__ void Promote(int i, int chunk, const bool (&high)[2],
                                          const float (&partial)[kPartial],
                                          float (&sum)[kSums]) const {
    float* to = sum + chunk * kPartial;
    if constexpr (!kBlocks) {
#pragma unroll
      for (int c = 0; c < kPartial; ++c) to[c] = __fadd_rn(to[c], partial[c]);
      return;
    }
    float w[2] = {1.0f, 1.0f};
    if (p.w_blocks) {
      const float2 both = SharedPair(WeightScalesAt(i));
      // Tiles of two groups begin where blocks do.
      w[0] = kGroups == 1 && high[0] ? both.y : both.x;
      w[1] = kGroups == 1 && high[1] ? both.y : both.x;
    }
    const uint32_t scales =
        TokenScalesAt(i) + static_cast<uint32_t>((chunk * kChunk + lane % 4 * 2) * 4);
#pragma unroll
    for (int j = 0; j < kChunk / 8; ++j) {
      const float2 x = p.x_blocks ? SharedPair(scales + 32 * j) : make_float2(1.0f, 1.0f);
      const float low[2] = {__fmul_rn(x.x, w[0]), __fmul_rn(x.y, w[0])};
      const float top[2] = {kGroups == 2 ? low[0] : __fmul_rn(x.x, w[1]),
                            kGroups == 2 ? low[1] : __fmul_rn(x.y, w[1])};
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        to[4 * j + c] = __fmaf_rn(partial[4 * j + c], low[c], to[4 * j + c]);
        to[4 * j + 2 + c] = __fmaf_rn(partial[4 * j + 2 + c], top[c], to[4 * j + 2 + c]);
      }
    }
  }

  __device__ __forceinline__ void Release() {
    __syncwarp();
    if (lane < kCluster) ArriveAt(Empty(), static_cast<uint32_t>(lane));
    Advance();
  }

  // The sums of a tile. All units of a stage are put on the matrix units, also those behind k,
  // whose sums nobody adds.
  __device__ __forceinline__ void SumTile(const bool (&high)[2], float (&sum)[kSums]) {
    for (int unit = 0; unit < units; unit += kUnits) {
      WaitBarrier(Full(), parity);
      float partial[kDepth][kPartial];
#pragma unroll
      for (int step = 0; step < kDepth; ++step)
        Multiply(step / kChunks, step % kChunks, partial[step]);
      PromoteFrom<0>(unit, high, partial, sum);
      Release();
    }
  }
  template <int kStep>
  __device__ __forceinline__ void PromoteFrom(int unit, const bool (&high)[2],
                                              float (&partial)[kDepth][kPartial],
                                              float (&sum)[kSums]) const {
    if constexpr (kStep < kSteps) {
      constexpr int kUnderWay = kSteps - kStep < kDepth ? kSteps - kStep : kDepth;
      WarpgroupWait<kUnderWay - 1>();
      float(&done)[kPartial] = partial[kStep % kDepth];
      PinSums(done);
      if (kUnits == 1 || unit + kStep / kChunks < units)
        Promote(kStep / kChunks, kStep % kChunks, high, done, sum);
      if constexpr (kStep + kDepth < kSteps)
        Multiply((kStep + kDepth) / kChunks, (kStep + kDepth) % kChunks, done);
      PromoteFrom<kStep + 1>(unit, high, partial, sum);
    }
  }

  // What a thread's four rows have for all tokens.
  struct RowTerms {
    float scale[4], bias[4];
  };
  __device__ __forceinline__ RowTerms TermsOf(int expert, int row) const {
    RowTerms terms;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int at = min(row + r, p.n - 1);
      terms.scale[r] = p.w_blocks ? 1.0f : p.w_scales[p.w_by_row ? expert * p.n + at : 0];
      terms.bias[r] =
          p.bias == nullptr ? 0.0f : LoadAs(p.bias_type, p.bias, expert * p.bias_stride + at);
    }
    return terms;
  }
  __device__ __forceinline__ float TokenScale(int token, int end) const {
    return p.x_blocks ? 1.0f : p.x_scales[p.x_by_row ? min(token, end - 1) : 0];
  }
  template <class T>
  __device__ __forceinline__ void Write(const float* from, const RowTerms& terms, float scale,
                                        const Four<T>& residual, bool four, int row, int token,
                                        int end) const {
    Four<T> out;
    T* const to = static_cast<T*>(p.out) + token * p.out_stride + row;
    const T* const add = static_cast<const T*>(p.residual) + token * p.residual_stride + row;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      if (row + r >= end) return;
      float v = __fmul_rn(from[r], __fmul_rn(terms.scale[r], scale));
      if (p.bias != nullptr) v = __fadd_rn(v, terms.bias[r]);
      if (p.residual != nullptr) v = __fadd_rn(v, ToFloat(four ? residual.v[r] : add[r]));
      out.v[r] = FromFloat<T>(v);
      if (!four) to[r] = out.v[r];
    }
    if (four) *reinterpret_cast<Four<T>*>(to) = out;
  }

  // Turns a tile's sums round in shared memory, so that neighbouring threads write neighbouring
  // rows of a token. What is read from memory is asked for before it is needed, and all at once.
  template <class T>
  __device__ __forceinline__ void WriteTile(const F8Tile& tile, const float (&sum)[kSums]) const {
    constexpr int kEach = kTurn / 8;  // of a thread: the same rows of every eighth token
    int row = tile.row, token = tile.token;
    const int group = warp / 4, end = min(row + Rows(), p.n), at = warp % 4 * 32 + lane;
    float* mine = turn + group * kTurn * kF8TurnPitch;
    float* to = mine + lane % 4 * 2 * kF8TurnPitch + warp % 4 * 16 + lane / 4;
    row += group * kF8GroupRows + at % 16 * 4;
    token += at / 16;
    const bool four = p.four && row + 4 <= end;
    const RowTerms terms = TermsOf(tile.expert, row);
#pragma unroll
    for (int first = 0; first < kTokens; first += kTurn) {
      float scale[kEach];
      Four<T> residual[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int t = token + first + 8 * i;
        scale[i] = TokenScale(t, tile.end);
        if (p.residual != nullptr && four && t < tile.end) {
          residual[i] = *reinterpret_cast<const Four<T>*>(static_cast<const T*>(p.residual) +
                                                          t * p.residual_stride + row);
        }
      }
      SyncSome(kGroups == 1 ? 1 : 1 + group, 128);
#pragma unroll
      for (int j = 0; j < kTurn / 8; ++j) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          to[(8 * j + c % 2) * kF8TurnPitch + c / 2 * 8] = sum[first / 2 + 4 * j + c];
        }
      }
      SyncSome(kGroups == 1 ? 1 : 1 + group, 128);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int t = token + first + 8 * i;
        if (t >= tile.end) continue;
        Write(mine + (at / 16 + 8 * i) * kF8TurnPitch + at % 16 * 4, terms, scale[i], residual[i],
              four, row, t, end);
      }
    }
  }

  __device__ void MultiplyTiles() {
    WaitForInputs();  // for the residual, and for whoever reads out
    ForTiles([&](const F8Tile& tile) {
      float sum[kSums] = {};
      const int mine = tile.row + warp * 16, block = tile.row / kF8Unit;
      const bool high[2] = {mine / kF8Unit > block, (mine + 8) / kF8Unit > block};
      SumTile(high, sum);
      if (p.result == DType::kF32) {
        WriteTile<float>(tile, sum);
      } else if (p.result == DType::kF16) {
        WriteTile<__half>(tile, sum);
      } else {
        WriteTile<__nv_bfloat16>(tile, sum);
      }
    });
  }

  // Registers go from the warps that fetch to those that multiply where there are two groups.
  __device__ void Run() {
    Begin();
    if (warp < kWarps) {
      if constexpr (kGroups == 2) asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
      MultiplyTiles();
    } else {
      if constexpr (kGroups == 2) asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
      if (warp == kWarps && lane == 0) FetchWeight();
      if (warp == kWarps + 1) FetchTokens();
    }
    // Until others have arrived here, they may still write to this thread block's shared memory.
    if constexpr (kCluster > 1) {
      __syncwarp();
      SyncCluster();
    }
  }
};

}  // namespace sluice::cuda
