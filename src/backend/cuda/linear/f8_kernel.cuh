// Products of W and x in F8_E4M3 on the matrix units of sm_90a. Rows of W are the rows of a matrix
// instruction and tokens its columns, so that few tokens waste nothing. An output is, for each unit
// of 128 elements, k ascending,
//   acc = fma(sum of the unit by four instructions, scale of the unit, acc)
// whatever the tile, so all tiles give the same bits.
//
// A thread block has one or two warpgroups that multiply, with 64 rows of W each at most, a warp
// that fetches W and one that fetches x, through a ring of stages in shared memory. W is fetched
// before the wait for x, since no kernel writes weights. What a unit's products are multiplied by
// is made by the warp that fetches x or, beside two groups, by two more: the warps that add have
// one load for four scales. The thread blocks of a cluster have different rows and the same tokens;
// each fetches its share of x for all. A thread block walks over tiles, and the ring fills with
// those of the next tile while outputs are written.
#pragma once

#include "backend/cuda/linear/f8_outputs.cuh"
#include "backend/cuda/linear/f8_params.h"
#include "backend/cuda/linear/linear_kernel.cuh"
#include "backend/cuda/simt/bulk_copy.cuh"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/warpgroup.cuh"

namespace sluice::cuda {

// kBlocks: scales differ along k. kGrouped: each token is multiplied by the weight of its expert.
template <int kTokens, int kGroups, int kCluster, bool kBlocks, bool kGrouped>
struct F8Linear {
  static constexpr int kChunk = F8Chunk(kTokens), kChunks = kTokens / kChunk;
  static constexpr int kUnits = F8UnitsPerStage(kTokens);
  static constexpr int kShare = kTokens / kCluster;  // tokens of x that a thread block fetches
  static constexpr int kWarps = 4 * kGroups;
  static constexpr int kSums = kTokens / 2, kPartial = kChunk / 2;
  // Tokens whose scales a thread has at a time, and how many it has.
  static constexpr int kScaledTokens = kChunks > 1 ? kChunk / 2 : kChunk;
  static constexpr int kScales = kBlocks ? kScaledTokens / 4 : 1;
  static constexpr int kScaleBlocks = F8ScaleBlocks(kGroups);
  // Warps that make scales; of one group, the one that fetches x. Of all scales of a stage a lane
  // of them makes so many.
  static constexpr int kScaleWarps = kGroups == 1 ? 1 : 2;
  static constexpr int kLaneScales = kUnits * kTokens / 32 / kScaleWarps;
  static constexpr int kLaneUnits = kTokens >= 32 ? kUnits : kLaneScales;  // that they are of
  static_assert(kShare % 8 == 0 && (kUnits == 1 || kChunks == 1));

  const F8LinearParams& p;
  const uint32_t ring, full, empty, residuals;
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
        residuals(empty + 8 * kF8StagesMax),
        turn(reinterpret_cast<float*>(memory + RingBytes())),
        first_tiles(reinterpret_cast<int*>(memory + RingBytes() + F8TurnBytes(kTokens, kGroups) +
                                           kF8BarrierBytes)),
        warp(static_cast<int>(threadIdx.x) / 32),
        lane(static_cast<int>(threadIdx.x) % 32),
        units((params.k + kF8Unit - 1) / kF8Unit) {}

  __device__ __forceinline__ uint32_t GroupOf() const {
    return kGroups == 1 ? 0 : static_cast<uint32_t>(__shfl_sync(0xffffffffu, warp / 4, 0));
  }
  // Two warpgroups always have all their rows, which spares registers.
  static constexpr int kAllRows = kGroups * kF8GroupRows;
  __device__ __forceinline__ int Rows() const { return kGroups == 2 ? kAllRows : p.rows; }
  __device__ __forceinline__ int StageBytes() const {
    return kGroups == 2 ? F8StageBytes(kTokens, kGroups, kAllRows) : p.stage_bytes;
  }
  __device__ __forceinline__ int Stages() const {
    return kGroups == 2 ? F8Stages(kTokens, kGroups, kAllRows, kGrouped) : p.stages;
  }
  __device__ __forceinline__ int RingBytes() const {
    return F8RingBytes(Stages(), StageBytes(), kGroups, Rows());
  }

  // Parts of a stage: kUnits units of W, of x, and of scales.
  __device__ __forceinline__ uint32_t StageAt() const {
    return ring + static_cast<uint32_t>(stage * StageBytes());
  }
  __device__ __forceinline__ uint32_t WeightOf(int unit) const {
    return static_cast<uint32_t>(unit * Rows() * kF8UnitBytes);
  }
  __device__ __forceinline__ uint32_t TokensOf(int unit) const {
    return WeightOf(kUnits) + static_cast<uint32_t>(unit * kTokens * kF8UnitBytes);
  }
  __device__ __forceinline__ uint32_t ScalesOf(int unit, int block) const {
    return TokensOf(kUnits) + static_cast<uint32_t>((unit * kScaleBlocks + block) * kTokens * 4);
  }
  // Where the scale of a token lies among those of a unit: a thread adds the products of two
  // neighbours of every eight tokens, and finds four scales together.
  static __device__ __forceinline__ uint32_t ScaleAt(int token) {
    if (kTokens == 8) return static_cast<uint32_t>(token * 4);
    return static_cast<uint32_t>(
        (token / 16 * 16 + token % 8 / 2 * 4 + token / 8 % 2 * 2 + token % 2) * 4);
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
      // Of W and of x, each by one thread, and of the warps that only make scales.
      constexpr int kArrivals = 2 + (kBlocks && kGroups == 2 ? kScaleWarps : 0);
      for (int i = 0; i < Stages(); ++i) {
        InitBarrier(full + 8 * i, kArrivals);
        InitBarrier(empty + 8 * i, kCluster * kWarps);
      }
      for (int group = 0; F8HasPlaces(kGroups) && group < kGroups; ++group)
        InitBarrier(residuals + 8 * group, 1);
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
          CopyBox(StageAt() + WeightOf(i), &p.w, (unit + i) * kF8Unit, row, Full());
        Advance();
      }
    });
  }

  // A lane's scales of a stage: of x, and of W for each block that the tile's rows lie in.
  struct StageScales {
    float x[kLaneScales], w[kLaneUnits][kScaleBlocks];
  };
  // One warp, which fetches x, makes scales, or both.
  template <bool kFetches, bool kScalesToo>
  __device__ void BringTokens() {
    if (kFetches && lane == 0) PrefetchMap(&p.x);
    WaitForInputs();
    const int rank = kCluster > 1 ? static_cast<int>(ClusterRank()) : 0;
    ForTiles([&](const F8Tile& tile) {
      // Each has every second stage, whose scales are asked for two stages before they are needed.
      // More ahead is faster where the same product runs again and again, and slower in a model:
      // its code is longer, and comes from memory.
      StageScales even, odd;
      if constexpr (kScalesToo) {
        LoadScales(0, tile, even);
        LoadScales(kUnits, tile, odd);
      }
#pragma unroll 1
      for (int unit = 0; unit < units; unit += 2 * kUnits) {
        FetchStage<kFetches, kScalesToo>(unit, tile, rank, even);
        if (unit + kUnits < units) FetchStage<kFetches, kScalesToo>(unit + kUnits, tile, rank, odd);
      }
    });
  }
  template <bool kFetches, bool kScalesToo>
  __device__ __forceinline__ void FetchStage(int unit, const F8Tile& tile, int rank,
                                             StageScales& scales) {
    WaitBarrier(Empty(), parity ^ 1);
    const int count = min(kUnits, units - unit);
    if (kFetches && lane == 0) FetchTokens(unit, count, tile.token, rank);
    if constexpr (kScalesToo) {
      StoreScales(scales);
      LoadScales(unit + 2 * kUnits, tile, scales);
      __syncwarp();
    }
    const int rows = !kFetches ? 0 : kCluster > 1 ? kTokens : p.x_rows;
    if (lane == 0) ArriveExpecting(Full(), static_cast<uint32_t>(count * rows * kF8UnitBytes));
    Advance();
  }
  __device__ __forceinline__ void FetchTokens(int unit, int count, int token, int rank) const {
    for (int i = 0; i < count; ++i) {
      const uint32_t to =
          StageAt() + TokensOf(i) + static_cast<uint32_t>(rank * kShare * kF8UnitBytes);
      const int column = (unit + i) * kF8Unit, first = token + rank * kShare;
      if constexpr (kCluster > 1) {
        CopyBoxToMany(to, &p.x, column, first, Full(), (1u << kCluster) - 1);
      } else {
        CopyBox(to, &p.x, column, first, Full());
      }
    }
  }

  // Which scale of a stage a lane has as number i: of a unit and of a token.
  __device__ __forceinline__ int ScaledUnit(int i) const {
    return kTokens >= 32 ? 32 * i / kTokens : (32 * i + lane) / kTokens;
  }
  __device__ __forceinline__ int ScaledToken(int i) const {
    if (kTokens < 32) return (32 * i + lane) % kTokens;
    const int first = kScaleWarps == 1 ? 0 : (warp - kWarps - 2) * (kTokens / kScaleWarps);
    return first + 32 * i % kTokens + lane;
  }
  // A kind of scales that does not differ along k counts as 1 here.
  __device__ __forceinline__ void LoadScales(int unit, const F8Tile& tile,
                                             StageScales& scales) const {
    const float* const x = p.x_scales + int64_t{unit} * p.x_scale_stride + tile.token;
    const int behind = p.m - 1 - tile.token;  // no token is behind it, nor a scale
#pragma unroll
    for (int i = 0; i < kLaneScales; ++i) {
      const int of_unit = ScaledUnit(i);
      scales.x[i] = p.x_blocks && unit + of_unit < units
                        ? x[int64_t{of_unit} * p.x_scale_stride + min(ScaledToken(i), behind)]
                        : 1.0f;
    }
    const int last = (p.n - 1) / kF8Unit, block = tile.expert * (last + 1);
#pragma unroll
    for (int i = 0; i < kLaneUnits; ++i) {
      const int of_unit = kTokens >= 32 ? i : ScaledUnit(i);
#pragma unroll
      for (int b = 0; b < kScaleBlocks; ++b) {
        const int64_t row = block + min(tile.row / kF8Unit + b, last);
        scales.w[i][b] =
            p.w_blocks && unit + of_unit < units ? p.w_scales[row * units + unit + of_unit] : 1.0f;
      }
    }
  }
  __device__ __forceinline__ void StoreScales(const StageScales& scales) const {
#pragma unroll
    for (int i = 0; i < kLaneScales; ++i) {
#pragma unroll
      for (int b = 0; b < kScaleBlocks; ++b) {
        const float w = scales.w[kTokens >= 32 ? 32 * i / kTokens : i][b];
        StoreScale(StageAt() + ScalesOf(ScaledUnit(i), b) + ScaleAt(ScaledToken(i)),
                   __fmul_rn(scales.x[i], w));
      }
    }
  }

  static __device__ __forceinline__ void StoreScale(uint32_t address, float value) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
  }
  static __device__ __forceinline__ float4 SharedFour(uint32_t address) {
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(address));
    return v;
  }
  static __device__ __forceinline__ float2 SharedPair(uint32_t address) {
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address));
    return v;
  }

  // Puts a unit's products on the matrix units. `at`: of the stage.
  __device__ __forceinline__ void Multiply(uint32_t at, int i, int chunk,
                                           float (&partial)[kPartial]) const {
    const uint64_t a = SwizzledOperand(at + WeightOf(i) + GroupOf() * kF8GroupRows * kF8UnitBytes);
    const uint64_t b =
        SwizzledOperand(at + TokensOf(i) + static_cast<uint32_t>(chunk * kChunk * kF8UnitBytes));
    PinSums(partial);
    WarpgroupFence();
#pragma unroll
    for (int step = 0; step < kF8Unit / 32; ++step)
      MultiplyF8<kChunk>(partial, OperandAt(a, step), OperandAt(b, step), step > 0);
    WarpgroupCommit();
  }

  // The thread's scales of kScaledTokens tokens from `token` on. `from`: where the unit's lie.
  __device__ __forceinline__ void ReadScales(uint32_t from, int token,
                                             float (&scales)[kScales]) const {
    if constexpr (kBlocks && kTokens == 8) {
      const float2 two = SharedPair(from + static_cast<uint32_t>(lane % 4 * 8));
      scales[0] = two.x, scales[1] = two.y;
    } else if constexpr (kBlocks) {
#pragma unroll
      for (int i = 0; i < kScales; i += 4) {
        const float4 four =
            SharedFour(from + static_cast<uint32_t>((token + 4 * i + lane % 4 * 4) * 4));
        scales[i] = four.x, scales[i + 1] = four.y, scales[i + 2] = four.z, scales[i + 3] = four.w;
      }
    }
  }

  // Adds the products with kScaledTokens tokens from `token` on.
  __device__ __forceinline__ void Add(int token, const float (&partial)[kPartial],
                                      const float (&scales)[kScales], float (&sum)[kSums]) const {
#pragma unroll
    for (int c = 0; c < kScaledTokens / 2; ++c) {
      const float product = partial[token % kChunk / 2 + c];
      float& to = sum[token / 2 + c];
      to = kBlocks ? __fmaf_rn(product, scales[kBlocks ? c / 4 * 2 + c % 2 : 0], to)
                   : __fadd_rn(to, product);
    }
  }

  __device__ __forceinline__ void Release() {
    __syncwarp();
    if constexpr (kCluster == 1) {
      if (lane == 0) Arrive(Empty());
    } else {
      if (lane < kCluster) ArriveAt(Empty(), static_cast<uint32_t>(lane));
    }
    Advance();
  }

  // The sums of a tile over some units. All units of a stage are put on the matrix units, also
  // those behind k, whose sums nobody adds. With many tokens the registers have room for half of
  // their products: the other warpgroup multiplies while this one adds. `block`: of W's scales,
  // that the warp has.
  __device__ __forceinline__ void SumUnits(int begin, int end, int block, float (&sum)[kSums]) {
    for (int unit = begin; unit < end; unit += kUnits) {
      // All lanes have the same, but the compiler does not know it of an address.
      const uint32_t at = __shfl_sync(0xffffffffu, StageAt(), 0);
      WaitBarrier(Full(), parity);
      float partial[kUnits][kPartial];
      if constexpr (kChunks == 1) {
#pragma unroll
        for (int i = 0; i < kUnits; ++i) Multiply(at, i, 0, partial[i]);
        AddStage(at, unit, block, partial, sum);
      } else {
#pragma unroll
        for (int chunk = 0; chunk < kChunks; ++chunk) {
          const int token = chunk * kChunk;
          Multiply(at, 0, chunk, partial[0]);
          float scales[kScales];
          ReadScales(at + ScalesOf(0, 0), token, scales);
          WarpgroupWait<0>();
          PinSums(partial[0]);
          Add(token, partial[0], scales, sum);
          ReadScales(at + ScalesOf(0, 0), token + kScaledTokens, scales);
          Add(token + kScaledTokens, partial[0], scales, sum);
        }
      }
      Release();
    }
  }

  // Scales are there before the products are, as many as there are registers for.
  __device__ __forceinline__ void AddStage(uint32_t at, int unit, int block,
                                           float (&partial)[kUnits][kPartial],
                                           float (&sum)[kSums]) const {
    constexpr bool kAhead = kTokens < 64;
    float scales[kUnits][kScales];
#pragma unroll
    for (int i = 0; i < (kAhead ? kUnits : 0); ++i)
      ReadScales(at + ScalesOf(i, block), 0, scales[i]);
    const auto add = [&](int i) {
      PinSums(partial[i]);
      Add(0, partial[i], scales[i], sum);
    };
    if (kUnits > 1 && unit + kUnits > units) {
      WarpgroupWait<0>();
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        if (!kAhead) ReadScales(at + ScalesOf(i, block), 0, scales[i]);
        if (unit + i < units) add(i);
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      if (!kAhead) ReadScales(at + ScalesOf(i, block), 0, scales[i]);
      WaitForAllBut(kUnits - 1 - i);
      add(i);
    }
  }
  static __device__ __forceinline__ void WaitForAllBut(int pending) {
    switch (pending) {
      case 0:
        return WarpgroupWait<0>();
      case 1:
        return WarpgroupWait<1>();
      case 2:
        return WarpgroupWait<2>();
      default:
        return WarpgroupWait<3>();
    }
  }

  __device__ void MultiplyTiles() {
    WaitForInputs();  // for the residual, and for whoever reads out
    uint32_t residual_parity = 0;
    ForTiles([&](const F8Tile& tile) {
      float sum[kSums] = {};
      const F8Outputs<kTokens, kGroups> outputs = {p, turn, warp, lane, Rows()};
      if constexpr (F8HasPlaces(kGroups)) {
        // Behind an expert's last token another one's begin, which a box would take along.
        const bool boxes = p.engine_writes && (!kGrouped || tile.token + kTokens <= tile.end);
        const bool adds = boxes && p.residual != nullptr;
        const uint32_t arrived = residuals + 8 * static_cast<uint32_t>(warp / 4);
        // Half way the outputs before have long left, and there is time for the residual to come.
        SumUnits(0, units / 2, 0, sum);
        if (adds && outputs.Asks()) outputs.FetchResidual(tile, arrived);
        __syncwarp();
        SumUnits(units / 2, units, 0, sum);
        if (adds) {
          WaitBarrier(arrived, residual_parity);
          residual_parity ^= 1;
        } else {
          outputs.WaitForPlaces();
        }
        outputs.WriteTile(tile, boxes, sum);
      } else {
        const uint4 residual = outputs.FirstResidual(tile);
        SumUnits(0, units, (tile.row + warp * 16) / kF8Unit - tile.row / kF8Unit, sum);
        outputs.WriteTile(tile, residual, sum);
      }
    });
    // Shared memory has to last until all has been read from it.
    if (F8HasPlaces(kGroups) && warp % 4 == 0 && lane == 0) WaitForBoxesToLeave();
  }

  // Registers go from the warps that fetch to those that multiply where there are two groups.
  __device__ void Run() {
    Begin();
    if (warp < kWarps) {
      if constexpr (kGroups == 2) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
      MultiplyTiles();
    } else {
      if constexpr (kGroups == 2) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
      if (warp == kWarps && lane == 0) FetchWeight();
      if (warp == kWarps + 1) BringTokens<true, kBlocks && kGroups == 1>();
      if (kBlocks && kGroups == 2 && warp > kWarps + 1) BringTokens<false, true>();
    }
    // Until others have arrived here, they may still write to this thread block's shared memory.
    if constexpr (kCluster > 1) {
      __syncwarp();
      SyncCluster();
    }
  }
};

}  // namespace sluice::cuda
