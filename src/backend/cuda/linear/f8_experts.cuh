// Products of experts' W and the few rows that each has, in F8_E4M3 with scales of blocks, on the
// matrix units of sm_90a. The bits are those of f8_kernel.cuh: for each unit of 128 elements, k
// ascending,
//   acc = fma(sum of the unit by four instructions, scale of the unit, acc).
//
// Here weights are nearly all that is read, and nothing but reading them takes long. An expert's
// rows, up to kTokens of them, lie in shared memory as long as a thread block goes through its
// weights; where an expert has more, its weights are read once more. Items of 256 rows of W, expert
// by expert, are shared out evenly among as many thread blocks as there are multiprocessors, each
// of which has neighbours. A warp fetches W through a ring that runs on from item to item, and each
// of four warpgroups multiplies 64 rows of an item. Which expert comes first is known only behind
// the wait for inputs; where nearly all have rows it is guessed before, and the guessed weights are
// brought to the second-level cache.
//
// Where W is that of gates and what they open for, an item has 128 rows of each, and becomes codes
// with one scale for each row of x: a thread has eight numbers.
#pragma once

#include "backend/cuda/activation/gates.cuh"
#include "backend/cuda/linear/f8_experts_params.h"
#include "backend/cuda/simt/bulk_copy.cuh"
#include "backend/cuda/simt/codes.cuh"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/element.cuh"
#include "backend/cuda/simt/mma.cuh"
#include "backend/cuda/simt/warpgroup.cuh"

namespace sluice::cuda {

// The box that CopyBox would copy comes as far as the device's cache; nobody is told when.
__device__ __forceinline__ void PrefetchBox(const void* map, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global [%0, {%1, %2, %3, %4}];" ::"l"(map),
               "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}

template <int kTokens, bool kGated, class T>
struct F8Experts {
  static constexpr int kSums = kTokens / 2, kScales = kTokens / 4;
  static constexpr int kBand = kGated ? kF8ExpertsRows / 2 : kF8ExpertsRows;  // columns of out
  static constexpr int kUnits = kF8ExpertsUnits;

  const F8ExpertsParams& p;
  const int units, bands;
  const uint32_t ring, rows, full, empty;
  const uint32_t turned, taken;  // what lies in `turn` is whole; is read
  float* const row_scales;       // [unit][kTokens], where ScaleAt says
  T* const turn;                 // [kTokens][kF8ExpertsTurnPitch]
  int* const starts;             // [experts + 1]: places
  int* const passes;             // [experts + 1]: the first one of each
  const int warp, lane;

  __device__ F8Experts(const F8ExpertsParams& params, uint8_t* memory)
      : p(params),
        units(params.k / kF8Unit),
        bands((kGated ? params.n / 2 : params.n) / kBand),
        ring(SharedAddress(memory)),
        rows(ring + static_cast<uint32_t>(params.stages * kF8ExpertsStageBytes)),
        full(rows + static_cast<uint32_t>(F8ExpertsRestBytes(kTokens, params.k, kGated)) -
             kF8ExpertsBarrierBytes),
        empty(full + 8 * kF8ExpertsStagesMax),
        turned(empty + 8 * kF8ExpertsStagesMax),
        taken(turned + 8),
        row_scales(reinterpret_cast<float*>(memory + params.stages * kF8ExpertsStageBytes +
                                            kTokens * params.k)),
        turn(reinterpret_cast<T*>(row_scales + kTokens * units)),
        starts(reinterpret_cast<int*>(turn + (kGated ? kTokens * kF8ExpertsTurnPitch : 0))),
        passes(starts + kF8ExpertsMost + 4),
        warp(static_cast<int>(threadIdx.x) / 32),
        lane(static_cast<int>(threadIdx.x) % 32) {}

  // Up to kTokens rows of an expert, which meet all of its weights.
  struct Pass {
    int number = -1, expert = 0, first = 0, count = 0;  // places
  };
  __device__ __forceinline__ Pass PassOf(int number) const {
    int expert = 0;  // the last one whose passes begin here or before; it has some
    for (int above = p.experts; above - expert > 1;) {
      const int middle = (expert + above) / 2;
      if (passes[middle] <= number) {
        expert = middle;
      } else {
        above = middle;
      }
    }
    const int first = starts[expert] + (number - passes[expert]) * kTokens;
    return {number, expert, first, min(kTokens, starts[expert + 1] - first)};
  }
  // One warp; a lane has neighbouring experts.
  __device__ void CountPasses() const {
    const int each = (p.experts + 31) / 32;
    const int begin = min(lane * each, p.experts), end = min(begin + each, p.experts);
    const auto count_of = [&](int e) {
      return (starts[e + 1] - starts[e] + kTokens - 1) / kTokens;
    };
    int count = 0;
    for (int e = begin; e < end; ++e) count += count_of(e);
    int first = count;
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2) {
      const int other = __shfl_up_sync(~0u, first, lanes);
      if (lane >= lanes) first += other;
    }
    if (lane == 31) passes[p.experts] = first;
    first -= count;
    for (int e = begin; e < end; ++e) {
      passes[e] = first;
      first += count_of(e);
    }
  }

  // The thread block's share of `items`.
  __device__ __forceinline__ int ShareAt(int items, int block) const {
    return static_cast<int>(int64_t{items} * block / static_cast<int>(gridDim.x));
  }
  // Calls `visit(pass, band)` for the items of this thread block.
  template <class Visit>
  __device__ __forceinline__ void ForItems(const Visit& visit) const {
    const int items = passes[p.experts] * bands, block = static_cast<int>(blockIdx.x);
    const int end = ShareAt(items, block + 1);
    Pass pass;
#pragma unroll 1
    for (int item = ShareAt(items, block); item < end; ++item) {
      if (item / bands != pass.number) pass = PassOf(item / bands);
      visit(pass, item % bands);
    }
  }
  // The first row of W, among the expert's, that a warpgroup has in a band.
  __device__ __forceinline__ int RowOf(int band, int group) const {
    if (!kGated) return band * kBand + group * kF8GroupRows;
    return group / 2 * (p.n / 2) + band * kBand + group % 2 * kF8GroupRows;
  }

  __device__ __forceinline__ void Advance(int& at, uint32_t& parity, int by) const {
    at += by;
    while (at >= p.stages) {
      at -= p.stages;
      parity ^= 1;
    }
  }

  // One thread, before it knows more.
  __device__ void GuessFirst() const {
    const int first = ShareAt(p.experts * bands, static_cast<int>(blockIdx.x));
    const int expert = first / bands, band = first % bands;
    for (int s = 0; s < min(p.stages, units / kUnits * kF8ExpertsGroups); ++s) {
      PrefetchBox(&p.w, 0, expert * p.n + RowOf(band, s % kF8ExpertsGroups),
                  s / kF8ExpertsGroups * kUnits, 0);
    }
  }
  // One thread. Weights leave the device's cache before what is read again, as rows of x and of
  // out.
  __device__ void FetchWeights() const {
    const uint64_t policy = ReadOncePolicy();
    int at = 0;
    uint32_t parity = 0;
    ForItems([&](const Pass& pass, int band) {
#pragma unroll 1
      for (int unit = 0; unit < units; unit += kUnits) {
#pragma unroll 1
        for (int group = 0; group < kF8ExpertsGroups; ++group) {
          WaitBarrier(empty + 8 * at, parity ^ 1);
          ArriveExpecting(full + 8 * at, kF8ExpertsStageBytes);
          CopyBoxOnce(ring + static_cast<uint32_t>(at * kF8ExpertsStageBytes), &p.w, 0,
                      pass.expert * p.n + RowOf(band, group), unit, 0, full + 8 * at, policy);
          Advance(at, parity, 1);
        }
      }
    });
  }

  // Where the scale of a token lies among those of a unit: a thread adds the products of two
  // neighbours of every eight tokens, and finds four scales together.
  static __device__ __forceinline__ int ScaleAt(int token) {
    if (kTokens == 8) return token;
    return token / 16 * 16 + token % 8 / 2 * 4 + token / 8 % 2 * 2 + token % 2;
  }
  // Where the codes of a row's group of eight lie, as matrix instructions find them.
  __device__ __forceinline__ uint32_t CodeAt(int t, int first) const {
    const int eights = (t / 8 * units + first / kF8Unit) * 8 + t % 8;
    return static_cast<uint32_t>(eights * kF8UnitBytes + (first % kF8Unit / 16 ^ t % 8) * 16 +
                                 first % 16);
  }
  __device__ __forceinline__ void CopyCodes(int t, int row) const {
    const uint8_t* const from = p.x + row * p.x_stride;
    for (int first = 16 * lane; first < p.k; first += 16 * 32) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(rows + CodeAt(t, first)),
                   "l"(from + first)
                   : "memory");
    }
    for (int u = lane; u < units; u += 32) {
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(
                       SharedAddress(row_scales + u * kTokens + ScaleAt(t))),
                   "l"(p.x_scales + int64_t{u} * p.x_scale_stride + row)
                   : "memory");
    }
  }
  // The pass's rows and their scales. All warps that multiply, each every 16th row; whoever has
  // rows there has read them by then.
  __device__ void TakeRows(const Pass& pass) const {
    SyncSome(1, kF8ExpertsMultipliers);
    constexpr int kWarps = kF8ExpertsMultipliers / 32, kRounds = (kTokens + kWarps - 1) / kWarps;
    int row[kRounds];
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      const int t = warp + kWarps * i, place = pass.first + t;
      row[i] = t >= pass.count ? -1 : p.tokens == nullptr ? place : p.tokens[place];
    }
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      if (row[i] >= 0) CopyCodes(warp + kWarps * i, row[i]);
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    PublishToMatrices();
    SyncSome(1, kF8ExpertsMultipliers);
  }

  // Rows by eights: those of all units of eight tokens lie before the next eight's.
  __device__ __forceinline__ uint64_t RowsOperand(int unit) const {
    const uint64_t operand = SwizzledOperand(rows + static_cast<uint32_t>(unit * kF8UnitBytes * 8));
    const uint64_t eights = static_cast<uint64_t>(units * kF8UnitBytes * 8) >> 4;
    return (operand & ~(uint64_t{0x3fff} << 32)) | eights << 32;
  }
  __device__ __forceinline__ void ReadScales(int unit, float w, float (&scales)[kScales]) const {
    const float* const from = row_scales + unit * kTokens;
    if constexpr (kTokens == 8) {
      const float2 two = *reinterpret_cast<const float2*>(from + lane % 4 * 2);
      scales[0] = two.x, scales[1] = two.y;
    } else {
#pragma unroll
      for (int i = 0; i < kScales; i += 4) {
        const float4 four = *reinterpret_cast<const float4*>(from + 4 * i + lane % 4 * 4);
        scales[i] = four.x, scales[i + 1] = four.y, scales[i + 2] = four.z, scales[i + 3] = four.w;
      }
    }
#pragma unroll
    for (int i = 0; i < kScales; ++i) scales[i] = __fmul_rn(scales[i], w);
  }
  static __device__ __forceinline__ void Add(float (&partial)[kSums],
                                             const float (&scales)[kScales], float (&sum)[kSums]) {
    PinSums(partial);
#pragma unroll
    for (int c = 0; c < kSums; ++c)
      sum[c] = __fmaf_rn(partial[c], scales[c / 4 * 2 + c % 2], sum[c]);
  }

  // The sums of a warpgroup's rows of an item. `w`: the scales of W that this lane has.
  __device__ __forceinline__ void SumItem(const float (&w)[2], int& at, uint32_t& parity,
                                          float (&sum)[kSums]) const {
#pragma unroll 1
    for (int unit = 0; unit < units; unit += kUnits) {
      const uint32_t stage =
          __shfl_sync(~0u, ring + static_cast<uint32_t>(at * kF8ExpertsStageBytes), 0);
      WaitBarrier(full + 8 * at, parity);
      float partial[kUnits][kSums], scales[kUnits][kScales];
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        const uint64_t a =
            SwizzledOperand(stage + static_cast<uint32_t>(i * kF8GroupRows * kF8UnitBytes));
        const uint64_t b = RowsOperand(unit + i);
        PinSums(partial[i]);
        WarpgroupFence();
#pragma unroll
        for (int step = 0; step < kF8Unit / 32; ++step)
          MultiplyF8<kTokens>(partial[i], OperandAt(a, step), OperandAt(b, step), step > 0);
        WarpgroupCommit();
      }
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        const int u = unit + i;
        ReadScales(u, __shfl_sync(~0u, u < 32 ? w[0] : w[1], u % 32), scales[i]);
      }
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        if (i + 1 < kUnits) {
          WarpgroupWait<kUnits - 1>();
        } else {
          WarpgroupWait<0>();
          __syncwarp();
          if (lane == 0) Arrive(empty + 8 * at);
        }
        Add(partial[i], scales[i], sum);
      }
      Advance(at, parity, kF8ExpertsGroups);
    }
  }

  // Eight rows of four tokens at a time: whole sectors of memory in F32.
  template <class Out>
  __device__ __forceinline__ void WriteItem(const Pass& pass, int row,
                                            const float (&sum)[kSums]) const {
    Out* const out = static_cast<Out*>(p.out) + row + warp % 4 * 16 + lane / 4;
#pragma unroll
    for (int c = 0; c < kSums; ++c) {
      const int token = c / 4 * 8 + lane % 4 * 2 + c % 2;
      if (token >= pass.count) continue;
      out[(pass.first + token) * p.out_stride + c / 2 % 2 * 8] = FromFloat<Out>(sum[c]);
    }
  }
  // A warpgroup's sums of gates, or of what they open for, go where they meet.
  __device__ __forceinline__ void TurnItem(int group, uint32_t parity,
                                           const float (&sum)[kSums]) const {
    WaitBarrier(taken, parity ^ 1);
    T* const mine = turn + group * kF8GroupRows + warp % 4 * 16 + lane / 4;
#pragma unroll
    for (int c = 0; c < kSums; ++c) {
      const int token = c / 4 * 8 + lane % 4 * 2 + c % 2;
      mine[token * kF8ExpertsTurnPitch + c / 2 % 2 * 8] = FromFloat<T>(sum[c]);
    }
    __syncwarp();
    if (lane == 0) Arrive(turned);
  }
  // A thread has eight numbers of a token, 16 of them those of a scale. Whole warps.
  __device__ __forceinline__ void WriteCodes(const Pass& pass, int band, int token) const {
    const int first = lane % kCodeLanes * kGroup;
    const T* const from = turn + token * kF8ExpertsTurnPitch + first;
    float gate[kGroup], up[kGroup];
    LoadGroup(from, 0, kGroup, true, gate);
    LoadGroup(from + kBand, 0, kGroup, true, up);
#pragma unroll
    for (int i = 0; i < kGroup; ++i)
      gate[i] = ToFloat(FromFloat<T>(ActivateGate(p.kind, gate[i], up[i])));
    const float scale = ScaleFor(MostOfLanes(MostOf(gate), kCodeLanes), kF8Max);
    if (token >= pass.count) return;
    const int place = pass.first + token;
    StoreF8Codes(static_cast<uint8_t*>(p.out) + place * p.out_stride + band * kBand, first, kBand,
                 true, Divider::By(scale), gate);
    if (first == 0) p.out_scales[int64_t{band} * p.out_scale_stride + place] = scale;
  }
  // Warps of their own, so that those that multiply go on with the next item. `number`: of the warp
  // among them.
  __device__ void FinishItems(int number) const {
    uint32_t parity = 0;
    ForItems([&](const Pass& pass, int band) {
      WaitBarrier(turned, parity);
      for (int two = 2 * number; two < pass.count; two += 2 * kF8ExpertsFinishers)
        WriteCodes(pass, band, two + lane / kCodeLanes);
      __syncwarp();
      if (lane == 0) Arrive(taken);
      parity ^= 1;
    });
  }

  __device__ void MultiplyItems() const {
    const int group = __shfl_sync(~0u, warp / 4, 0);
    int at = 0, has = -1;  // the pass whose rows are there
    uint32_t parity = 0, turn_parity = 0;
    Advance(at, parity, group);
    ForItems([&](const Pass& pass, int band) {
      const int row = RowOf(band, group);
      const float* const w_scales =
          p.w_scales + (int64_t{pass.expert} * (p.n / kF8Unit) + row / kF8Unit) * units;
      const float w[2] = {lane < units ? w_scales[lane] : 0.0f,
                          lane + 32 < units ? w_scales[lane + 32] : 0.0f};
      if (pass.number != has) TakeRows(pass);
      has = pass.number;
      float sum[kSums] = {};
      SumItem(w, at, parity, sum);
      if constexpr (kGated) {
        TurnItem(group, turn_parity, sum);
        turn_parity ^= 1;
      } else if (p.result == DType::kF32) {
        WriteItem<float>(pass, row, sum);
      } else {
        WriteItem<T>(pass, row, sum);
      }
    });
  }

  __device__ void Run() {
    constexpr int kFetches = kF8ExpertsMultipliers / 32;
    if (warp == kFetches && lane == 0) {
      for (int i = 0; i < p.stages; ++i) {
        InitBarrier(full + 8 * i, 1);
        InitBarrier(empty + 8 * i, 4);
      }
      InitBarrier(turned, kFetches);
      InitBarrier(taken, kF8ExpertsFinishers);
      PublishBarriers();
      if (p.all_taken) GuessFirst();
    }
    WaitForInputs();
    for (int e = static_cast<int>(threadIdx.x); e <= p.experts; e += F8ExpertsThreads(kGated))
      starts[e] = p.starts[e];
    __syncthreads();
    if (warp == kFetches) CountPasses();
    __syncthreads();
    if (warp < kFetches) {
      MultiplyItems();
    } else if (warp > kFetches) {
      if constexpr (kGated) FinishItems(warp - kFetches - 1);
    } else if (lane == 0) {
      FetchWeights();
    }
  }
};

}  // namespace sluice::cuda
