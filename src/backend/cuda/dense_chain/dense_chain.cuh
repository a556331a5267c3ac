// The products and little sums from one attention to the next for a step of few tokens, in one
// kernel (sm_90a): a thread block a multiprocessor, all of them resident, which wait for each other
// between the products. Weights come through a ring in shared memory that never drains: while
// thread blocks wait, the first stages of the next product are on their way.
//
// The bits are those of the kernels for the parts (linear/f8_kernel.cuh, norm, group_quant):
//   acc = fma(sum of the unit by four instructions, scale of the unit, acc), units ascending.
// A stage is 16 rows of W by four units, whose rows are put one behind the other as the 64 rows of
// an instruction; the columns are the tokens' codes of the first unit, of the second and so on. A
// warp has the 16 rows of one unit and keeps the sums with that unit's codes; the others are
// nobody's. One warp adds the units' sums in order and writes outputs.
#pragma once

#include "backend/cuda/activation/gates.cuh"
#include "backend/cuda/dense_chain/params.h"
#include "backend/cuda/simt/bulk_copy.cuh"
#include "backend/cuda/simt/codes.cuh"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/mma.cuh"
#include "backend/cuda/simt/warpgroup.cuh"

namespace sluice::cuda {

// How often thread blocks have arrived where all wait for each other, in all launches. A launch has
// a thread block on every multiprocessor, and none of them runs before all can
// (LaunchShape::together), so launches, of any streams, follow one another: a thread block ends
// only where all have arrived for the last time. Each launch adds a multiple of its thread blocks,
// and nothing has to be reset.
static __device__ unsigned long long chain_arrivals;

// Where a thread is in a ring.
struct ChainPlace {
  int at = 0;
  uint32_t parity = 0;
  __device__ __forceinline__ void Advance(int by, int size) {
    at += by;
    while (at >= size) {
      at -= size;
      parity ^= 1;
    }
  }
};

template <int kTokens, class T>
struct DenseChain {
  static constexpr int kColumns = ChainColumns(kTokens), kSums = kColumns / 2;
  static constexpr int kLaneTokens = kTokens / 2;  // that a lane of the finishing warp adds for

  const ChainParams& p;
  uint8_t* const codes;       // [stages of k][columns][unit], swizzled
  float* const sums;          // [pieces][stages of a piece][token][row][unit of the stage]
  float* const scales;        // [pieces][stages of a piece][token][unit of the stage]
  float* const stage_scales;  // [stage of the ring][unit of the stage], of W
  float* const x_scales;      // [token][unit]
  float* const squares;       // [token][warp]
  const uint32_t ring, full, empty, done, free, ready;
  const int warp, lane;

  __device__ DenseChain(const ChainParams& params, uint8_t* memory)
      : p(params),
        codes(memory + params.stages * kChainStageBytes),
        sums(reinterpret_cast<float*>(codes + params.code_bytes)),
        scales(sums + kChainPieces * kChainGroups * ChainSumFloats(kTokens)),
        stage_scales(scales + kChainPieces * kChainGroups * ChainScaleFloats(kTokens)),
        x_scales(stage_scales + kChainStagesMax * kChainStageUnits),
        squares(x_scales + kTokens * kChainUnitsMax),
        ring(SharedAddress(memory)),
        full(SharedAddress(squares + kTokens * kChainWarps)),
        empty(full + 8 * kChainStagesMax),
        done(empty + 8 * kChainStagesMax),
        free(done + 8 * kChainPieces),
        ready(free + 8 * kChainPieces),
        warp(static_cast<int>(threadIdx.x) / 32),
        lane(static_cast<int>(threadIdx.x) % 32) {}

  // Calls `visit(first row)` for the slabs of this thread block, a gate's before its other half's.
  template <class Visit>
  static __device__ __forceinline__ void ForSlabs(const ChainPhase& phase, const Visit& visit) {
    const int parts = phase.gated ? 2 : 1, items = phase.n / kChainSlab / parts;
    for (int item = static_cast<int>(blockIdx.x); item < items;
         item += static_cast<int>(gridDim.x)) {
      for (int part = 0; part < parts; ++part)
        visit(item * kChainSlab + part * (phase.n / 2), part);
    }
  }

  // The warp that fetches, which asks for weights before anyone else has begun.
  __device__ __forceinline__ void Begin() {
    if (lane == 0) PrefetchMap(&p.phases[0].w);
    if (lane < p.stages) {
      InitBarrier(full + 8 * lane, 1);
      InitBarrier(empty + 8 * lane, 4);
    }
    if (lane < kChainPieces) {
      InitBarrier(done + 8 * lane, kChainWarps);
      InitBarrier(free + 8 * lane, 1);
    }
    if (lane == 0) InitBarrier(ready, 1);
    PublishBarriers();
    __syncwarp();
    asm volatile("bar.arrive 2, %0;" ::"n"(kChainThreads) : "memory");
  }

  // One thread. It waits for no other thread block. Weights leave the device's cache before what is
  // read again: what thread blocks write to each other, and the code of all kernels.
  __device__ void FetchWeights() {
    const uint64_t policy = ReadOncePolicy();
    ChainPlace place, landed;
    int asked = 0;
#pragma unroll 1
    for (int i = 0; i < p.phase_count; ++i) {
      const ChainPhase& phase = p.phases[i];
      const int stages = phase.k / kChainStageK;
      ForSlabs(phase, [&](int row, int) {
        const float* const w = phase.w_scales + row / kChainUnit * (phase.k / kChainUnit);
#pragma unroll 1
        for (int s = 0; s < stages; ++s) {
          if (asked == p.asked_max) {
            WaitBarrier(full + 8 * landed.at, landed.parity);
            landed.Advance(1, p.stages);
          } else {
            ++asked;
          }
          WaitBarrier(empty + 8 * place.at, place.parity ^ 1);
          constexpr uint32_t kScaleBytes = 4 * kChainStageUnits;
          ArriveExpecting(full + 8 * place.at, kChainStageBytes + kScaleBytes);
          CopyBytes(SharedAddress(stage_scales + place.at * kChainStageUnits),
                    w + s * kChainStageUnits, kScaleBytes, full + 8 * place.at);
          CopyBoxOnce(ring + static_cast<uint32_t>(place.at * kChainStageBytes), &phase.w, 0, row,
                      s * kChainStageUnits, 0, full + 8 * place.at, policy);
          place.Advance(1, p.stages);
        }
      });
    }
  }

  // Until all thread blocks have arrived `times` times in this launch. One thread; `before`: how
  // many arrivals there were before the launch.
  static __device__ __forceinline__ void WaitForAll(unsigned long long before, int times) {
    const unsigned long long all = before + uint64_t{gridDim.x} * static_cast<unsigned>(times);
    unsigned long long now;
    do {
      asm volatile("ld.acquire.gpu.global.u64 %0, [%1];"
                   : "=l"(now)
                   : "l"(&chain_arrivals)
                   : "memory");
    } while (now < all);
  }
  // No thread block has arrived where this one has not, so it knows what all began with.
  static __device__ __forceinline__ unsigned long long ArrivalsBefore() {
    unsigned long long now;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];"
                 : "=l"(now)
                 : "l"(&chain_arrivals)
                 : "memory");
    return now / gridDim.x * gridDim.x;
  }

  // Eight numbers.
  struct alignas(16) Eight {
    T values[kGroup];
  };
  // What other thread blocks have written: past the first-level cache.
  static __device__ __forceinline__ Eight LoadEight(const T* from) {
    const uint4 words = __ldcg(reinterpret_cast<const uint4*>(from));
    return *reinterpret_cast<const Eight*>(&words);
  }

  // Of the largest |x| of eight the bits in F32, of which those in T are in the same order.
  static __device__ __forceinline__ uint32_t MostOfEight(const Eight& eight) {
    const uint4 words = *reinterpret_cast<const uint4*>(&eight);
    constexpr uint32_t kNoSigns = 0x7fff7fffu;
    const uint32_t two = __vmaxu2(__vmaxu2(words.x & kNoSigns, words.y & kNoSigns),
                                  __vmaxu2(words.z & kNoSigns, words.w & kNoSigns));
    const uint32_t most = MostOfLanes(max(two & 0xffffu, two >> 16), kCodeLanes);
    const auto bits = static_cast<uint16_t>(most);
    return __float_as_uint(ToFloat(*reinterpret_cast<const T*>(&bits)));
  }

  // Eight numbers of a token, from `first` on, become codes where the matrix instructions find
  // them. Whole warps.
  __device__ __forceinline__ void Code(int token, int first, const Eight& eight) const {
    float x[kGroup];
#pragma unroll
    for (int i = 0; i < kGroup; ++i) x[i] = ToFloat(eight.values[i]);
    const float scale = ScaleFor(MostOfEight(eight), kF8Max);
    const int unit = first / kChainUnit, column = unit % kChainStageUnits * kTokens + token;
    const int at = (unit / kChainStageUnits * kColumns + column) * kChainUnit;
    const int swizzled = (first % kChainUnit / 16 ^ column % 8) * 16 + first % 16;
    StoreF8Codes(codes + at + swizzled, 0, kGroup, true, Divider::By(scale), x);
    if (first % kChainUnit == 0) x_scales[token * kChainUnitsMax + unit] = scale;
  }

  // A walk over the eights of x that a thread takes, row by row. Of a row that has a norm there is
  // one, so that squares are added in the order of the norm's own kernel. Whole warps have eights.
  static constexpr int kStride = kChainMultipliers * kGroup;
  static_assert(kStride == kChainHiddenMax);
  struct Walk {
    const T* at;
    int token, first;
    __device__ __forceinline__ void Next(int k, int64_t stride) {
      first += kStride;
      at += kStride;
      if (first < k) return;
      ++token;
      first = static_cast<int>(threadIdx.x) * kGroup;
      at += stride - (k - 1 - first + kStride) / kStride * kStride;
    }
  };
  static constexpr int kAhead = 4;  // eights that are asked for before they are needed
  static_assert(kTokens <= kAhead);

  __device__ __forceinline__ void AddSquares(const Eight (&eights)[kAhead]) const {
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        const float x = ToFloat(eights[t].values[i]);
        sum += x * x;
      }
      sum = WarpSum(sum);
      if (lane == 0) squares[t * kChainWarps + warp] = sum;
    }
    SyncSome(1, kChainMultipliers);
  }
  __device__ __forceinline__ float InverseRms(int token, int k) const {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kChainWarps; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(squares + token * kChainWarps + i);
      sum = sum + four.x + four.y + four.z + four.w;
    }
    return cuda::InverseRms(sum, k, p.eps);
  }

  __device__ __forceinline__ void CodeRows(const ChainPhase& phase,
                                           const float (&weight)[kGroup]) const {
    const int k = phase.k, first = static_cast<int>(threadIdx.x) * kGroup;
    const int m = first < k ? p.m : 0;
    Walk now = {static_cast<const T*>(phase.x) + first, 0, first}, ahead = now;
    const auto ask = [&] {
      const Eight eight = ahead.token < m ? LoadEight(ahead.at) : Eight();
      ahead.Next(k, phase.x_stride);
      return eight;
    };
    Eight eights[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) eights[i] = ask();
    if (phase.norm != nullptr) AddSquares(eights);
#pragma unroll 1
    for (; now.token < m; now.Next(k, phase.x_stride)) {
      Eight eight = eights[0];
#pragma unroll
      for (int i = 0; i + 1 < kAhead; ++i) eights[i] = eights[i + 1];
      eights[kAhead - 1] = ask();
      if (phase.norm != nullptr) {
        const float inverse = InverseRms(now.token, k);
#pragma unroll
        for (int i = 0; i < kGroup; ++i)
          eight.values[i] = FromFloat<T>(ToFloat(eight.values[i]) * inverse * weight[i] + 0.0f);
      }
      Code(now.token, now.first, eight);
    }
  }

  // x becomes codes in shared memory, by each thread block for itself, once all have written it. A
  // norm's weights, which no kernel writes, are asked for before.
  __device__ __forceinline__ void TakeRows(const ChainPhase& phase, int number,
                                           unsigned long long& before) const {
    const int first = static_cast<int>(threadIdx.x) * kGroup;
    float weight[kGroup] = {};
    if (phase.norm != nullptr && first < phase.k) {
      *reinterpret_cast<float4*>(weight) = *reinterpret_cast<const float4*>(phase.norm + first);
      *reinterpret_cast<float4*>(weight + 4) =
          *reinterpret_cast<const float4*>(phase.norm + first + 4);
    }
    if (number == 0) {
      WaitForInputs();
      if (threadIdx.x == 0) before = ArrivalsBefore();
    } else {
      if (threadIdx.x == 0) WaitForAll(before, number);
      SyncSome(1, kChainMultipliers);
    }
    CodeRows(phase, weight);
    PublishToMatrices();
    SyncSome(1, kChainMultipliers);
    if (threadIdx.x == 0) Arrive(ready);
  }

  // The sums of this warp's unit, of a stage whose number along k is `stage`. `by`: the scales of
  // W's units, those that came with the stage if null.
  __device__ __forceinline__ void Multiply(int stage, const ChainPlace& place, int to_stage,
                                           const float* by) const {
    float* const to = sums + to_stage * ChainSumFloats(kTokens);
    const int unit = warp % 4;
    WaitBarrier(full + 8 * place.at, place.parity);
    if (lane < kTokens) {
      const float x = x_scales[lane * kChainUnitsMax + stage * kChainStageUnits + unit];
      const float w = by == nullptr ? stage_scales[place.at * kChainStageUnits + unit] : by[unit];
      scales[to_stage * ChainScaleFloats(kTokens) + lane * kChainStageUnits + unit] =
          __fmul_rn(x, w);
    }
    const uint64_t a = SwizzledOperand(
        __shfl_sync(~0u, ring + static_cast<uint32_t>(place.at * kChainStageBytes), 0));
    const uint64_t b = SwizzledOperand(__shfl_sync(
        ~0u, SharedAddress(codes) + static_cast<uint32_t>(stage * kColumns * kChainUnit), 0));
    float d[kSums];
    PinSums(d);
    WarpgroupFence();
#pragma unroll
    for (int step = 0; step < kChainUnit / 32; ++step)
      MultiplyF8<kColumns>(d, OperandAt(a, step), OperandAt(b, step), step > 0);
    WarpgroupCommit();
    WarpgroupWait<0>();
    PinSums(d);
    __syncwarp();
    if (lane == 0) Arrive(empty + 8 * place.at);
      // Column 8 j + 2 (lane % 4) + c is d[4 j + c], and 8 rows below d[4 j + 2 + c].
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = 8 * j + lane % 4 * 2 + i % 2, row = lane / 4 + i / 2 * 8;
        if (column / kTokens == unit)
          to[((column % kTokens) * kChainSlab + row) * kChainStageUnits + unit] = d[4 * j + i];
      }
    }
  }

  // A slab's stages, shared out among the warpgroups. `table`: the scales of W's units, or null.
  __device__ __forceinline__ void MultiplySlab(int stages, const float* table, ChainPlace& place,
                                               ChainPlace& piece) const {
    const int group = __shfl_sync(~0u, warp / 4, 0);
#pragma unroll 1
    for (int s = 0; s < stages; s += kChainGroups) {
      WaitBarrier(free + 8 * piece.at, piece.parity ^ 1);
      if (s + group < stages) {
        Multiply(s + group, place, piece.at * kChainGroups + group,
                 table == nullptr ? nullptr : table + (s + group) * kChainStageUnits);
      }
      __syncwarp();
      if (lane == 0) Arrive(done + 8 * piece.at);
      piece.Advance(1, kChainPieces);
      place.Advance(min(kChainGroups, stages - s), p.stages);
    }
  }

  __device__ void MultiplyAll() {
    ChainPlace place, piece;
    unsigned long long before = 0;
    const int group = __shfl_sync(~0u, warp / 4, 0);
    place.Advance(group, p.stages);
#pragma unroll 1
    for (int i = 0; i < p.phase_count; ++i) {
      const ChainPhase& phase = p.phases[i];
      TakeRows(phase, i, before);
      ForSlabs(phase,
               [&](int, int) { MultiplySlab(phase.k / kChainStageK, nullptr, place, piece); });
    }
  }

  // The finishing warp: a lane has row lane % 16 for tokens lane / 16, lane / 16 + 2, ...
  __device__ __forceinline__ void AddSlab(int stages, ChainPlace& piece,
                                          float (&sum)[kLaneTokens]) const {
#pragma unroll 1
    for (int s = 0; s < stages; s += kChainGroups) {
      WaitBarrier(done + 8 * piece.at, piece.parity);
#pragma unroll
      for (int g = 0; g < kChainGroups; ++g) {
        if (s + g >= stages) break;
        const int stage = piece.at * kChainGroups + g;
#pragma unroll
        for (int t = 0; t < kLaneTokens; ++t) {
          const int token = lane / 16 + 2 * t;
          const float4 by = *reinterpret_cast<const float4*>(
              scales + stage * ChainScaleFloats(kTokens) + token * kChainStageUnits);
          const float4 four =
              *reinterpret_cast<const float4*>(sums + stage * ChainSumFloats(kTokens) +
                                               (token * kChainSlab + lane % 16) * kChainStageUnits);
          sum[t] = __fmaf_rn(four.x, by.x, sum[t]);
          sum[t] = __fmaf_rn(four.y, by.y, sum[t]);
          sum[t] = __fmaf_rn(four.z, by.z, sum[t]);
          sum[t] = __fmaf_rn(four.w, by.w, sum[t]);
        }
      }
      __syncwarp();
      if (lane == 0) Arrive(free + 8 * piece.at);
      piece.Advance(1, kChainPieces);
    }
  }

  // What an earlier phase has left here, this lane has written itself, since phases with a residual
  // have equal slabs: no wait is needed.
  __device__ __forceinline__ void AskResidual(const ChainPhase& phase, int row,
                                              T (&residual)[kLaneTokens]) const {
    if (phase.residual == nullptr || row >= phase.n) return;
    const auto* const from = static_cast<const T*>(phase.residual) + row + lane % 16;
#pragma unroll
    for (int t = 0; t < kLaneTokens; ++t) {
      const int token = lane / 16 + 2 * t;
      if (token < p.m) residual[t] = from[token * phase.residual_stride];
    }
  }

  __device__ __forceinline__ void WriteSlab(const ChainPhase& phase, int row, int part,
                                            const float (&sum)[kLaneTokens],
                                            const T (&residual)[kLaneTokens],
                                            float (&gate)[kLaneTokens]) const {
    const int column = (part == 0 ? row : row - phase.n / 2) + lane % 16;
#pragma unroll
    for (int t = 0; t < kLaneTokens; ++t) {
      const int token = lane / 16 + 2 * t;
      if (token >= p.m) continue;
      float value = __fmul_rn(sum[t], 1.0f);
      if (phase.residual != nullptr) value = __fadd_rn(value, ToFloat(residual[t]));
      if (phase.gated) {
        value = ToFloat(FromFloat<T>(value));
        if (part == 0) {
          gate[t] = value;
          continue;
        }
        value = ActivateGate(kSilu, gate[t], value);
      }
      static_cast<T*>(phase.out)[token * phase.out_stride + column] = FromFloat<T>(value);
    }
  }

  // Says that this thread block has written what a phase gives. A whole warp, which wrote it.
  __device__ __forceinline__ void ArriveForAll() const {
    __syncwarp();
    if (lane == 0) {
      asm volatile("red.release.gpu.global.add.u64 [%0], %1;" ::"l"(&chain_arrivals), "l"(1ull)
                   : "memory");
    }
  }

  __device__ void FinishPhase(const ChainPhase& phase, ChainPlace& piece, uint32_t& parity) const {
    float gate[kLaneTokens] = {};
    T next[kLaneTokens];
    AskResidual(phase, static_cast<int>(blockIdx.x) * kChainSlab, next);
    WaitBarrier(ready, parity);
    parity ^= 1;
    ForSlabs(phase, [&](int row, int part) {
      T residual[kLaneTokens];
#pragma unroll
      for (int t = 0; t < kLaneTokens; ++t) residual[t] = next[t];
      AskResidual(phase, row + static_cast<int>(gridDim.x) * kChainSlab, next);
      float sum[kLaneTokens] = {};
      AddSlab(phase.k / kChainStageK, piece, sum);
      WriteSlab(phase, row, part, sum, residual, gate);
    });
  }

  __device__ void FinishAll() {
    ChainPlace piece;
    uint32_t parity = 0;
    WaitForInputs();
#pragma unroll 1
    for (int i = 0; i < p.phase_count; ++i) {
      FinishPhase(p.phases[i], piece, parity);
      if (i + 1 < p.phase_count) ArriveForAll();
    }
  }

  // What each warp of a thread block does in a chain, this one or one that is made of it.
  template <class Chain>
  static __device__ __forceinline__ void RunWarp(Chain& chain) {
    if (chain.warp != kChainWarps) {
      SyncSome(2, kChainThreads);
      if (chain.warp < kChainWarps) {
        chain.MultiplyAll();
      } else {
        chain.FinishAll();
      }
      return;
    }
    chain.Begin();
    if (chain.lane == 0) chain.FetchWeights();
  }
  __device__ void Run() { RunWarp(*this); }
};

}  // namespace sluice::cuda
