// Products of W in block formats and many tokens of x in BF16 on the matrix units of sm_90a. Bits
// are those of linear_kernel.cuh: the units add sixteen products along k to a sum alike, whether a
// warp or a warpgroup asks for them and in whatever order the sixteen stand; scales, minimums and
// slices come in behind in the same order.
//
// Each of two warpgroups has 64 rows of W, whose codes it widens in registers, and all tokens of a
// tile, which lie in shared memory as the units read them. A warpgroup that fetches fills two
// rings: the blocks of W by its threads, before the wait for x, and a copy of x by the copy engine.
#pragma once

#include "backend/cuda/linear/block_wgmma_params.h"
#include "backend/cuda/linear/linear_kernel.cuh"
#include "backend/cuda/linear/weight_blocks.cuh"
#include "backend/cuda/simt/bulk_copy.cuh"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/warpgroup_registers.cuh"

namespace sluice::cuda {

template <DType kWeight>
struct BlockWgmma {
  using Format = Block<kWeight>;
  static constexpr int kSub = BlockSub(kWeight), kSubs = kBlockWindow / kSub;
  static constexpr int kBlocks = kBlockStage / BlockElements(kWeight);
  static constexpr int kPitch = BlockPitch(kWeight), kWords = kPitch / 16;
  static constexpr int kBoxBytes = kBlockTokens * kBlockBoxBytes;
  static constexpr int kSumsAt = kBlockRows * kPitch;  // in a stage
  static constexpr int kStageBytes = BlockStageBytes(kWeight);
  // Slices are units, of so many windows.
  static constexpr int kUnitWindows = LinearUnitOf(kWeight) / kBlockWindow;
  static constexpr int kSums = kBlockTokens / 2;
  static constexpr int kFetchers = 96;  // threads that fetch W
  static_assert(Format::kSub == kSub && Format::kMinimum == BlockHasMinimum(kWeight));

  const BlockWgmmaParams& p;
  uint8_t* const memory;
  const uint32_t boxes, barriers;
  const int warp, lane, stages;  // stages: of a tile
  int stage = 0;
  uint32_t parity = 0, box_parity = 0;

  // Shared memory: places for boxes of x, the ring of W, the warps' places to turn outputs round,
  // sums of slices, the barriers.
  static constexpr int kStagesAt = kBlockBoxes * kBoxBytes;
  static constexpr int kTurnsAt = kStagesAt + kBlockStages * kStageBytes;
  static constexpr int kTotalsAt = kTurnsAt + kBlockTurnBytes;
  static constexpr int kBarriersAt = kTotalsAt + kBlockTotalBytes;
  __device__ BlockWgmma(const BlockWgmmaParams& params, uint8_t* shared)
      : p(params),
        memory(shared),
        boxes(SharedAddress(shared)),
        barriers(boxes + kBarriersAt),
        warp(static_cast<int>(threadIdx.x) / 32),
        lane(static_cast<int>(threadIdx.x) % 32),
        stages((params.product.k + kBlockStage - 1) / kBlockStage) {}

  __device__ __forceinline__ uint32_t Full() const { return barriers + 16 * stage; }
  __device__ __forceinline__ uint32_t Empty() const { return barriers + 16 * stage + 8; }
  __device__ __forceinline__ uint32_t BoxFull(int box) const {
    return barriers + 16 * (kBlockStages + box);
  }
  __device__ __forceinline__ uint32_t BoxEmpty(int box) const { return BoxFull(box) + 8; }
  __device__ __forceinline__ void Advance() {
    box_parity ^= 1;
    if (++stage < kBlockStages) return;
    stage = 0;
    parity ^= 1;
  }
  template <class Visit>
  __device__ __forceinline__ void ForTiles(const Visit& visit) {
    for (int tile = static_cast<int>(blockIdx.x); tile < p.row_tiles * p.token_tiles;
         tile += static_cast<int>(gridDim.x)) {
      visit(tile / p.token_tiles * kBlockRows, tile % p.token_tiles * kBlockTokens);
    }
  }
  __device__ void Begin() {
    if (threadIdx.x == 0) {
      constexpr int kMultiply = 8;  // warps
      for (int i = 0; i < kBlockStages; ++i) {
        InitBarrier(barriers + 16 * i, (Format::kMinimum ? 1 : 0) + kFetchers);
        InitBarrier(barriers + 16 * i + 8, kMultiply);
      }
      for (int i = 0; i < kBlockBoxes; ++i) {
        InitBarrier(BoxFull(i), 1);
        InitBarrier(BoxEmpty(i), kMultiply);
      }
      PublishBarriers();
    }
    __syncthreads();
  }

  // Where a row's blocks of a stage begin.
  __device__ __forceinline__ const uint8_t* BlocksOf(int row, int at) const {
    return static_cast<const uint8_t*>(p.product.weight) +
           static_cast<int64_t>(min(row, p.product.n - 1)) * p.product.row_bytes +
           at * kBlocks * Format::kBytes;
  }
  __device__ __forceinline__ int BlocksIn(int at) const {
    return min(kBlocks, p.product.k / BlockElements(kWeight) - at * kBlocks);
  }

  // Whole words of 16 bytes around the blocks, by three warps.
  __device__ void FetchWeight() {
    const int thread = static_cast<int>(threadIdx.x) - (kBlockThreads - kFetchers);
    const uint8_t* const end =
        static_cast<const uint8_t*>(p.product.weight) + p.product.n * p.product.row_bytes;
    ForTiles([&](int row, int) {
      for (int at = 0; at < stages; ++at) {
        WaitBarrier(Empty(), parity ^ 1);
        const uint32_t to = boxes + static_cast<uint32_t>(kStagesAt + stage * kStageBytes);
        const int bytes = BlocksIn(at) * Format::kBytes;
#pragma unroll 4
        for (int i = thread; i < kBlockRows * kWords; i += kFetchers) {
          const uint8_t* const begin = BlocksOf(row + i / kWords, at);
          const uint8_t* const from =
              begin - reinterpret_cast<uintptr_t>(begin) % 16 + i % kWords * 16;
          if (from >= begin + bytes) continue;
          // The matrix may end within the last word.
          const int count = static_cast<int>(min(static_cast<int64_t>(16), end - from));
          CopyAsyncFirst(to + static_cast<uint32_t>(i / kWords * kPitch + i % kWords * 16), from,
                         count);
        }
        ArriveWhenCopied(Full());
        Advance();
      }
    });
  }

  // One thread.
  __device__ void FetchTokens() {
    PrefetchMap(&p.x);
    WaitForInputs();
    ForTiles([&](int, int token) {
      for (int at = 0; at < stages; ++at) {
        if constexpr (Format::kMinimum) FetchSums(at, token);
#pragma unroll
        for (int i = 0; i < kBlockBoxes; ++i) {
          WaitBarrier(BoxEmpty(i), box_parity ^ 1);
          ArriveExpecting(BoxFull(i), static_cast<uint32_t>(p.x_rows * kBlockBoxBytes));
          CopyBox(boxes + i * kBoxBytes, &p.x, (at * kBlockStage + 64 * i) * 2, token, BoxFull(i));
        }
        Advance();
      }
    });
  }
  __device__ __forceinline__ void FetchSums(int at, int token) const {
    constexpr int kRows = BlockSums(kWeight), kBytes = kBlockTokens * 4;
    WaitBarrier(Empty(), parity ^ 1);
    ArriveExpecting(Full(), kRows * kBytes);
    const float* const from = p.x_sums + static_cast<int64_t>(at * kRows) * p.x_sums_stride + token;
    const uint32_t to = boxes + static_cast<uint32_t>(kStagesAt + stage * kStageBytes + kSumsAt);
    for (int i = 0; i < kRows; ++i)
      CopyBytes(to + i * kBytes, from + static_cast<int64_t>(i) * p.x_sums_stride, kBytes, Full());
  }

  // What of a window of a lane's two rows goes into products.
  struct Window {
    uint32_t a[2][4];
    float scale[2][2], minimum[2][2];
  };
  // Those behind the first `windows` of a stage count as zeros.
  __device__ __forceinline__ Window Unpack(const uint8_t* const (&rows)[2], int w,
                                           int windows) const {
    Window window;
    const int t = lane % 4;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const uint8_t* const block = rows[r] + (kBlocks > 1 ? w * Format::kBytes : 0);
      const typename Format::Raw raw = Format::template Load<InShared>(block, t);
      const int of_block = kBlocks > 1 ? 0 : w;
      uint32_t codes[2];
      Format::Codes(raw, of_block, t, codes);
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        uint32_t pairs[2];
        BytesToBf16<Format::kBits, Format::kOffset>(codes[s], pairs);
        window.a[s][r] = pairs[0];
        window.a[s][2 + r] = pairs[1];
      }
      Format::Scales(raw, of_block, window.scale[r], window.minimum[r]);
      if (kBlocks > 1 && w >= windows) window.scale[r][0] = window.minimum[r][0] = 0.0f;
    }
    return window;
  }

  // The matrix units multiply half of the tokens by a sub-block at a time, while the products of
  // the half before are added: number i of a stage's has sub-block i / 2.
  static constexpr int kHalf = kSums / 2, kProducts = 2 * kSubs * kBlockWindows;
  static constexpr int kBoxProducts = kProducts / kBlockBoxes;
  __device__ __forceinline__ void Multiply(const Window& window, int i, uint32_t tokens,
                                           float (&sum)[kHalf]) const {
    const int w = i / 2 / kSubs, sub = i / 2 % kSubs;
    const uint32_t box = tokens + w / 2 * kBoxBytes + i % 2 * (kBoxBytes / 2);
    if (i % kBoxProducts == 0) WaitBarrier(BoxFull(i / kBoxProducts), box_parity);
    const uint64_t operand = OperandAt(SwizzledOperand(box), w % 2 * 2);
    WarpgroupFence();
    if constexpr (kSubs == 1) {
      BeginTokens<__nv_bfloat16>(sum, window.a[0], operand);
      AddTokensTo<__nv_bfloat16>(sum, window.a[1], OperandAt(operand, 1));
    } else {
      BeginTokens<__nv_bfloat16>(sum, window.a[sub], OperandAt(operand, sub));
    }
    WarpgroupCommit();
  }
  // `sums`: those of x over the stage's sub-blocks.
  __device__ __forceinline__ void Add(const Window& window, int i, const uint8_t* sums,
                                      float (&sum)[kHalf], float (&acc)[kSums]) const {
    PinSums(sum);
    const int sub = i / 2 % kSubs;
    const auto* const x_sums =
        reinterpret_cast<const float2*>(sums + i / 2 * kBlockTokens * 4) + lane % 4;
#pragma unroll
    for (int j = 0; j < kHalf / 4; ++j) {
      float2 x_sum = {};
      if constexpr (Format::kMinimum) x_sum = x_sums[4 * (i % 2 * kHalf / 4 + j)];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        float& to = acc[i % 2 * kHalf + 4 * j + c];
        to = __fmaf_rn(window.scale[c / 2][sub], sum[4 * j + c], to);
        if constexpr (Format::kMinimum)
          to = __fmaf_rn(window.minimum[c / 2][sub], c % 2 == 0 ? x_sum.x : x_sum.y, to);
      }
    }
  }
  // Adds the products of a stage.
  __device__ __forceinline__ void AddStage(const uint8_t* const (&rows)[2], uint32_t tokens,
                                           const uint8_t* sums, int windows, int& left,
                                           float (&acc)[kSums]) const {
    float sum[2][kHalf];
    Window window[2];
    window[0] = Unpack(rows, 0, windows);
    Multiply(window[0], 0, tokens, sum[0]);
#pragma unroll
    for (int i = 0; i < kProducts; ++i) {
      const int w = i / 2 / kSubs, next = (i + 1) / 2 / kSubs;
      if (i + 1 < kProducts) {
        if (next != w) window[next % 2] = Unpack(rows, next, windows);
        Multiply(window[next % 2], i + 1, tokens, sum[(i + 1) % 2]);
        WarpgroupWait<1>();
      } else {
        WarpgroupWait<0>();
      }
      if ((i + 1) % kBoxProducts == 0) Release(BoxEmpty(i / kBoxProducts));
      Add(window[w % 2], i, sums, sum[i % 2], acc);
      if ((i + 1) % (2 * kSubs * kUnitWindows) == 0 && --left == 0) {
        Fold(acc);
        left = p.product.units_per_slice;
      }
    }
  }

  __device__ __forceinline__ void Release(uint32_t barrier) const {
    __syncwarp();
    if (lane == 0) Arrive(barrier);
  }
  // Adds a slice's sums to those before.
  __device__ __forceinline__ void Fold(float (&acc)[kSums]) const {
    float* const totals = reinterpret_cast<float*>(memory + kTotalsAt) + threadIdx.x;
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      totals[256 * i] = __fadd_rn(totals[256 * i], acc[i]);
      acc[i] = 0.0f;
    }
  }

  __device__ void MultiplyTiles() {
    WaitForInputs();  // for the residual, and for whoever reads out
    const int first = warp * 16 + lane / 4;
    float* const totals = reinterpret_cast<float*>(memory + kTotalsAt) + threadIdx.x;
    const uint32_t tokens = __shfl_sync(0xffffffffu, boxes, 0);
    ForTiles([&](int row, int token) {
      float acc[kSums] = {};
#pragma unroll
      for (int i = 0; i < kSums; ++i) totals[256 * i] = 0.0f;
      int left = p.product.units_per_slice;
      for (int at = 0; at < stages; ++at) {
        WaitBarrier(Full(), parity);
        const uint8_t* const base = memory + kStagesAt + stage * kStageBytes;
        const uint8_t* rows[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int in_tile = first + 8 * r;
          rows[r] = base + in_tile * kPitch +
                    reinterpret_cast<uintptr_t>(BlocksOf(row + in_tile, at)) % 16;
        }
        const int windows = BlocksIn(at) * BlockElements(kWeight) / kBlockWindow;
        AddStage(rows, tokens, base + kSumsAt, windows, left, acc);
        Release(Empty());
        Advance();
      }
      if (left != p.product.units_per_slice) Fold(acc);
      WriteTile(row + warp * 16, token);
    });
  }

  // Turned round in shared memory, so that neighbouring lanes write neighbouring rows.
  __device__ __forceinline__ void WriteTile(int row, int token) const {
    auto* const mine = reinterpret_cast<float*>(memory + kTurnsAt) + warp * 16 * kBlockTurnPitch;
    const float* const totals = reinterpret_cast<float*>(memory + kTotalsAt) + threadIdx.x;
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int j = 0; j < kSums / 8; ++j) {
      __syncwarp();
#pragma unroll
      for (int c = 0; c < 8; ++c)
        mine[(c / 4 * 8 + 2 * t + c % 2) * kBlockTurnPitch + g + c / 2 % 2 * 8] =
            totals[256 * (8 * j + c)];
      __syncwarp();
      const int at = lane / 2, eight = lane % 2 * 8;
      if (p.wide) {
        WriteEight(row + eight, token + 16 * j + at, mine + at * kBlockTurnPitch + eight);
        continue;
      }
#pragma unroll 1
      for (int i = lane; i < 16 * 16; i += 32) {
        Finish(p.product, row + i % 16, token + 16 * j + i / 16,
               mine[i / 16 * kBlockTurnPitch + i % 16]);
      }
    }
  }
  // Eight neighbouring rows of a token in bf16.
  __device__ __forceinline__ void WriteEight(int row, int token, const float* sums) const {
    const LinearParams& to = p.product;
    if (row >= to.n || token >= to.m) return;
    float v[8];
    *reinterpret_cast<float4*>(v) = *reinterpret_cast<const float4*>(sums);
    *reinterpret_cast<float4*>(v + 4) = *reinterpret_cast<const float4*>(sums + 4);
    const auto add = [&](const void* from, int64_t first) {
      const uint4 eight =
          *reinterpret_cast<const uint4*>(static_cast<const __nv_bfloat16*>(from) + first);
      const auto* const pairs = reinterpret_cast<const __nv_bfloat162*>(&eight);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        v[2 * i] = __fadd_rn(v[2 * i], __low2float(pairs[i]));
        v[2 * i + 1] = __fadd_rn(v[2 * i + 1], __high2float(pairs[i]));
      }
    };
    if (to.bias != nullptr) add(to.bias, row);
    if (to.residual != nullptr) add(to.residual, token * to.residual_stride + row);
    *reinterpret_cast<uint4*>(static_cast<__nv_bfloat16*>(to.out) + token * to.out_stride + row) = {
        Pack<Bf16>(v[0], v[1]), Pack<Bf16>(v[2], v[3]), Pack<Bf16>(v[4], v[5]),
        Pack<Bf16>(v[6], v[7])};
  }

  // Registers go from the warps that fetch to those that multiply.
  __device__ void Run() {
    Begin();
    if (warp < 8) {
      asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
      MultiplyTiles();
    } else {
      asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
      if (warp == 8) {
        if (lane == 0) FetchTokens();
      } else {
        FetchWeight();
      }
    }
  }
};

}  // namespace sluice::cuda

#define SLUICE_BLOCK_WGMMA(name, type)                                         \
  extern "C" __global__ void __launch_bounds__(sluice::cuda::kBlockThreads, 1) \
      name##_wgmma(const __grid_constant__ sluice::cuda::BlockWgmmaParams p) { \
    extern __shared__ __align__(1024) uint8_t block_ring[];                    \
    sluice::cuda::BlockWgmma<sluice::DType::type>(p, block_ring).Run();        \
  }
