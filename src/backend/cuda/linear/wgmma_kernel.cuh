// Products of W and x in 16-bit numbers on the matrix units of sm_90a. Rows of W are the rows of a
// matrix instruction and tokens its columns, so that few tokens waste nothing. An output is one
// chain of instructions over all of k, 16 at a time, ascending, whatever the tile: so all tiles
// give the same bits.
//
// A thread block has one or two warpgroups that multiply, with 64 rows of W each at most, a warp
// that fetches W and one that fetches x, through a ring of stages in shared memory. W is fetched
// before the wait for x, since no kernel writes weights. A thread block walks over tiles, and the
// ring fills with those of the next tile while outputs are written.
#pragma once

#include "backend/cuda/linear/wgmma_params.h"
#include "backend/cuda/simt/bulk_copy.cuh"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/element.cuh"
#include "backend/cuda/simt/mma.cuh"
#include "backend/cuda/simt/warpgroup_tokens.cuh"

namespace sluice::cuda {

// Rows [row, row + Rows()) of W and tokens [token, end).
struct WgmmaTile {
  int row, token, end;
};

template <class T, int kTokens, int kGroups>
struct WgmmaLinear {
  static constexpr int kUnits = WgmmaUnitsPerStage(kTokens);
  static constexpr int kWarps = 4 * kGroups;
  static constexpr int kSums = kTokens / 2;
  static constexpr int kTurns = WgmmaTurns(kTokens);
  static constexpr int kStep = kWgmmaUnitsStep * kWgmmaUnit;
  static_assert(kWgmmaUnitsStep % kUnits == 0);

  const WgmmaParams& p;
  const uint32_t ring, full, empty, turn;
  const int warp, lane, units;
  int stage = 0;
  uint32_t parity = 0;

  // Shared memory: the ring, the warps' places to turn outputs round, the barriers.
  __device__ WgmmaLinear(const WgmmaParams& params, uint8_t* memory)
      : p(params),
        ring(SharedAddress(memory)),
        full(ring + static_cast<uint32_t>(WgmmaRingBytes(kTokens, kGroups, Rows(), Stages()) +
                                          WgmmaTurnsBytes(kTokens, kGroups))),
        empty(full + 8 * kWgmmaStagesMax),
        turn(full - static_cast<uint32_t>((kWarps - static_cast<int>(threadIdx.x) / 32) * kTurns *
                                          kWgmmaTurnBytes)),
        warp(static_cast<int>(threadIdx.x) / 32),
        lane(static_cast<int>(threadIdx.x) % 32),
        units((params.k + kStep - 1) / kStep * kWgmmaUnitsStep) {}

  __device__ __forceinline__ uint32_t GroupOf() const {
    return kGroups == 1 ? 0 : static_cast<uint32_t>(__shfl_sync(0xffffffffu, warp / 4, 0));
  }
  // Two warpgroups always have all their rows, which spares registers.
  static constexpr int kAllRows = kGroups * kWgmmaGroupRows;
  __device__ __forceinline__ int Rows() const { return kGroups == 2 ? kAllRows : p.rows; }
  __device__ __forceinline__ int Stages() const {
    return kGroups == 2 ? WgmmaStages(kTokens, kGroups, kAllRows) : p.stages;
  }

  // Parts of a stage: kUnits units of W, then of x.
  __device__ __forceinline__ uint32_t WeightAt(int unit) const {
    return ring + static_cast<uint32_t>(stage * WgmmaStageBytes(kTokens, Rows()) +
                                        unit * Rows() * kWgmmaUnitBytes);
  }
  __device__ __forceinline__ uint32_t TokensAt(int unit) const {
    return WeightAt(kUnits) + static_cast<uint32_t>(unit * kTokens * kWgmmaUnitBytes);
  }
  __device__ __forceinline__ uint32_t Full() const { return full + 8 * stage; }
  __device__ __forceinline__ uint32_t Empty() const { return empty + 8 * stage; }
  __device__ __forceinline__ void Advance() {
    if (++stage < Stages()) return;
    stage = 0;
    parity ^= 1;
  }

  // Calls `visit(WgmmaTile)` for the tiles of this thread block.
  template <class Visit>
  __device__ __forceinline__ void ForTiles(const Visit& visit) {
    for (int tile = static_cast<int>(blockIdx.x); tile < p.row_tiles * p.token_tiles;
         tile += static_cast<int>(gridDim.x)) {
      const int token = tile % p.token_tiles * p.x_rows;
      visit(WgmmaTile{tile / p.token_tiles * Rows(), token, min(token + p.x_rows, p.m)});
    }
  }

  __device__ void Begin() {
    if (threadIdx.x == 0) {
      for (int i = 0; i < Stages(); ++i) {
        InitBarrier(full + 8 * i, 2);  // of W and of x, each by one thread
        InitBarrier(empty + 8 * i, kWarps);
      }
      PublishBarriers();
    }
    __syncthreads();
  }

  // One thread. Behind k come zeros.
  __device__ void FetchWeight() {
    ForTiles([&](const WgmmaTile& tile) {
      for (int unit = 0; unit < units; unit += kUnits) {
        WaitBarrier(Empty(), parity ^ 1);
        ArriveExpecting(Full(), static_cast<uint32_t>(kUnits * Rows() * kWgmmaUnitBytes));
#pragma unroll
        for (int i = 0; i < kUnits; ++i)
          CopyBox(WeightAt(i), &p.w, (unit + i) * kWgmmaUnitBytes, tile.row, Full());
        Advance();
      }
    });
  }

  // One thread.
  __device__ void FetchTokens() {
    PrefetchMap(&p.x);
    WaitForInputs();
    ForTiles([&](const WgmmaTile& tile) {
      for (int unit = 0; unit < units; unit += kUnits) {
        WaitBarrier(Empty(), parity ^ 1);
        ArriveExpecting(Full(), static_cast<uint32_t>(kUnits * p.x_rows * kWgmmaUnitBytes));
#pragma unroll
        for (int i = 0; i < kUnits; ++i)
          CopyBox(TokensAt(i), &p.x, (unit + i) * kWgmmaUnitBytes, tile.token, Full());
        Advance();
      }
    });
  }

  __device__ __forceinline__ void Release(uint32_t barrier) const {
    __syncwarp();
    if (lane == 0) Arrive(barrier);
  }

  // The sums of a tile. A stage is given back once the products behind it are under way.
  __device__ __forceinline__ void SumTile(float (&sum)[kSums]) {
    uint32_t last = 0;
    for (int unit = 0; unit < units; unit += kUnits) {
      WaitBarrier(Full(), parity);
      WarpgroupFence();
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        // Operands of the whole warp are alike, but the compiler does not know it of an address.
        const uint32_t w = __shfl_sync(0xffffffffu, WeightAt(i), 0);
        const uint64_t a = SwizzledOperand(w + GroupOf() * kWgmmaGroupRows * kWgmmaUnitBytes);
        const uint64_t b = SwizzledOperand(w + TokensAt(i) - WeightAt(i));
#pragma unroll
        for (int step = 0; step < kWgmmaUnit / 16; ++step)
          AddTokens<T>(sum, OperandAt(a, step), OperandAt(b, step));
      }
      WarpgroupCommit();
      if (unit > 0) {
        WarpgroupWait<1>();
        Release(last);
      }
      last = Empty();
      Advance();
    }
    WarpgroupWait<0>();
    PinSums(sum);
    Release(last);
  }

  // A lane reads and writes eight rows of every sixteenth token, lane / 2 of the first sixteen.
  __device__ __forceinline__ int RowOf(const WgmmaTile& tile) const {
    return tile.row + warp * 16 + lane % 2 * 8;
  }
  __device__ __forceinline__ bool Has(const WgmmaTile& tile, int token) const {
    return RowOf(tile) < min(tile.row + Rows(), p.n) && token < tile.end &&
           (kTokens >= 16 || lane / 2 < kTokens);
  }
  __device__ __forceinline__ void LoadResidual(const WgmmaTile& tile, int first,
                                               uint4 (&residual)[kTurns]) const {
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      const int token = tile.token + first + 16 * i + lane / 2;
      if (Has(tile, token)) {
        residual[i] = *reinterpret_cast<const uint4*>(static_cast<const T*>(p.residual) +
                                                      token * p.residual_stride + RowOf(tile));
      }
    }
  }
  static __device__ __forceinline__ void AddPair(uint32_t pair, float& low, float& high) {
    const T* const both = reinterpret_cast<const T*>(&pair);
    low = __fadd_rn(low, ToFloat(both[0]));
    high = __fadd_rn(high, ToFloat(both[1]));
  }

  // Sums lie by rows of W and outputs by tokens: a warp turns those of 16 tokens at a time in
  // shared memory, and the residual the other way round before.
  __device__ __forceinline__ void WriteTile(const WgmmaTile& tile, const float (&bias)[2],
                                            uint4 (&residual)[kTurns],
                                            const float (&sum)[kSums]) const {
    const uint32_t mine = turn + lane / 2 * kWgmmaTurnPitch + lane % 2 * 16;
    const uint32_t matrix = turn + (lane / 16 * 8 + lane % 8) * kWgmmaTurnPitch + lane / 8 % 2 * 16;
#pragma unroll
    for (int first = 0; first < kTokens; first += 16 * kTurns) {
      if (p.residual != nullptr) {
#pragma unroll
        for (int i = 0; i < kTurns; ++i) StoreShared(mine + i * kWgmmaTurnBytes, residual[i]);
        __syncwarp();
        if (first + 16 * kTurns < kTokens) LoadResidual(tile, first + 16 * kTurns, residual);
      }
#pragma unroll
      for (int i = 0; i < kTurns; ++i) {
        float v[8] = {};
#pragma unroll
        for (int c = 0; c < 8 && c < kSums; ++c)
          v[c] = __fadd_rn(sum[first / 2 + 8 * i + c], bias[c / 2 % 2]);
        if (p.residual != nullptr) {
          uint32_t add[4];
          LoadMatricesTransposed(matrix + i * kWgmmaTurnBytes, add);
          __syncwarp();
#pragma unroll
          for (int c = 0; c < 4; ++c) AddPair(add[c], v[2 * c], v[2 * c + 1]);
        }
        const uint32_t out[4] = {Pack<T>(v[0], v[1]), Pack<T>(v[2], v[3]), Pack<T>(v[4], v[5]),
                                 Pack<T>(v[6], v[7])};
        StoreMatricesTransposed(matrix + i * kWgmmaTurnBytes, out);
      }
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kTurns; ++i) {
        const int token = tile.token + first + 16 * i + lane / 2;
        const uint4 out = LoadShared(mine + i * kWgmmaTurnBytes);
        if (Has(tile, token)) {
          *reinterpret_cast<uint4*>(static_cast<T*>(p.out) + token * p.out_stride + RowOf(tile)) =
              out;
        }
      }
      __syncwarp();
    }
  }

  // In F32 eight neighbouring rows of a token are a sector of memory as they lie. What is added is
  // asked for all at once.
  __device__ __forceinline__ void WriteTileF32(const WgmmaTile& tile, const float (&bias)[2],
                                               const float (&sum)[kSums]) const {
    constexpr int kEach = kSums % 32 == 0 ? 32 : kSums < 32 ? kSums : 16;
    static_assert(kSums % kEach == 0);
    const int row = tile.row + warp * 16 + lane / 4, end = min(tile.row + Rows(), p.n);
#pragma unroll
    for (int first = 0; first < kSums; first += kEach) {
      const auto token = [&](int i) {
        return tile.token + (first + i) / 4 * 8 + lane % 4 * 2 + i % 2;
      };
      const auto has = [&](int i) { return row + i / 2 % 2 * 8 < end && token(i) < tile.end; };
      float add[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        add[i] = p.residual == nullptr || !has(i)
                     ? -0.0f
                     : static_cast<const float*>(
                           p.residual)[token(i) * p.residual_stride + row + i / 2 % 2 * 8];
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (!has(i)) continue;
        static_cast<float*>(p.out)[token(i) * p.out_stride + row + i / 2 % 2 * 8] =
            __fadd_rn(__fadd_rn(sum[first + i], bias[i / 2 % 2]), add[i]);
      }
    }
  }

  // Of the thread's two rows. Without a bias -0, which changes no sum.
  __device__ __forceinline__ float BiasOf(int row) const {
    return p.bias == nullptr ? -0.0f : ToFloat(static_cast<const T*>(p.bias)[min(row, p.n - 1)]);
  }

  __device__ void MultiplyTiles() {
    WaitForInputs();  // for the residual, and for whoever reads out
    ForTiles([&](const WgmmaTile& tile) {
      float sum[kSums] = {};
      const int row = tile.row + warp * 16 + lane / 4;
      const float bias[2] = {BiasOf(row), BiasOf(row + 8)};
      uint4 residual[kTurns];
      const bool turns = !p.f32_out;
      if (turns && p.residual != nullptr) LoadResidual(tile, 0, residual);
      SumTile(sum);
      if (turns) {
        WriteTile(tile, bias, residual, sum);
      } else {
        WriteTileF32(tile, bias, sum);
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
      if (warp == kWarps + 1 && lane == 0) FetchTokens();
    }
  }
};

}  // namespace sluice::cuda

#define SLUICE_WGMMA_KERNEL(name, T, tokens, groups)                                  \
  extern "C" __global__ void __launch_bounds__(sluice::cuda::WgmmaThreads(groups), 1) \
      name(const __grid_constant__ sluice::cuda::WgmmaParams params) {                \
    extern __shared__ __align__(1024) uint8_t wgmma_ring[];                           \
    sluice::cuda::WgmmaLinear<T, tokens, groups>(params, wgmma_ring).Run();           \
  }
