// From one attention to the next where experts stand between them, for one token, in one kernel
// (sm_90a): a dense chain (dense_chain.cuh), whose ring, products and waits these are. The router's
// product is that of linear/wgmma_kernel.cuh, one chain of instructions over all of k; each thread
// block finds the token's experts by itself, and only then are their weights known and fetched.
// What the experts give is added where it is made: a thread block has the same rows of all of them.
//
// All wait for each other four times: for the sum behind attention, the router's logits, what opens
// the second products and, before QKV, the layer's sum.
#pragma once

#include "backend/cuda/dense_chain/dense_chain.cuh"
#include "backend/cuda/experts/route_token.cuh"
#include "backend/cuda/experts_chain/params.h"
#include "backend/cuda/simt/warpgroup_tokens.cuh"

namespace sluice::cuda {

template <class T>
struct ExpertsChain : DenseChain<kExpertsChainTokens, T> {
  using Base = DenseChain<kExpertsChainTokens, T>;
  using Base::codes, Base::empty, Base::free, Base::full, Base::lane, Base::p, Base::ready,
      Base::ring, Base::stage_scales, Base::warp;
  using typename Base::Eight;

  const ExpertsChainParams& e;
  RoutedToken& routed;

  __device__ ExpertsChain(const ExpertsChainParams& params, uint8_t* memory)
      : Base(params.chain, memory),
        e(params),
        routed(*reinterpret_cast<RoutedToken*>(memory + params.routed_at)) {}

  __device__ __forceinline__ const ChainPhase& FirstProducts() const { return p.phases[1]; }
  __device__ __forceinline__ const ChainPhase& SecondProducts() const { return p.phases[2]; }
  __device__ __forceinline__ int Width() const { return SecondProducts().k; }
  __device__ __forceinline__ uint32_t Routed() const { return SharedAddress(&routed.routed); }

  // Calls `visit(first row)` for each 16 experts whose logits this thread block makes.
  template <class Visit>
  __device__ __forceinline__ void ForRouterSlabs(const Visit& visit) const {
    for (int slab = static_cast<int>(blockIdx.x); slab < e.route.experts / kChainSlab;
         slab += static_cast<int>(gridDim.x))
      visit(slab * kChainSlab);
  }
  // Calls `visit(choice, first row of the gate)` for the first products that this thread block
  // makes, each with that of as many rows that the gate opens for.
  template <class Visit>
  __device__ __forceinline__ void ForFirstProducts(const Visit& visit) const {
    const int each = Width() / kChainSlab;
    for (int item = static_cast<int>(blockIdx.x); item < e.route.top_k * each;
         item += static_cast<int>(gridDim.x))
      visit(item / each, item % each * kChainSlab);
  }

  __device__ __forceinline__ void Begin() {
    if (lane == 0) InitBarrier(Routed(), 1);
    Base::Begin();
  }

  // Where the thread that fetches is.
  struct Asking {
    ChainPlace place, landed;
    int asked = 0;
    uint64_t policy = ReadOncePolicy();
  };
  // `scales`: of the stage's units, or null where they don't come with it.
  __device__ __forceinline__ void AskStage(const TensorMap& w, int row, int stage,
                                           const float* scales, Asking& asking) const {
    ChainPlace& place = asking.place;
    if (asking.asked == p.asked_max) {
      WaitBarrier(full + 8 * asking.landed.at, asking.landed.parity);
      asking.landed.Advance(1, p.stages);
    } else {
      ++asking.asked;
    }
    WaitBarrier(empty + 8 * place.at, place.parity ^ 1);
    const uint32_t arrived = full + 8 * place.at;
    const uint32_t scale_bytes = scales == nullptr ? 0 : 4 * kChainStageUnits;
    ArriveExpecting(arrived, kChainStageBytes + scale_bytes);
    if (scales != nullptr) {
      CopyBytes(SharedAddress(stage_scales + place.at * kChainStageUnits), scales, scale_bytes,
                arrived);
    }
    CopyBoxOnce(ring + static_cast<uint32_t>(place.at * kChainStageBytes), &w, 0, row,
                stage * kChainStageUnits, 0, arrived, asking.policy);
    place.Advance(1, p.stages);
  }
  __device__ __forceinline__ void AskSlab(const ChainPhase& phase, int row, Asking& asking) const {
    const float* const scales = phase.w_scales + row / kChainUnit * (phase.k / kChainUnit);
#pragma unroll 1
    for (int s = 0; s < phase.k / kChainStageK; ++s)
      AskStage(phase.w, row, s, scales + s * kChainStageUnits, asking);
  }

  // One thread. It waits for other thread blocks where it has to know the experts.
  __device__ void FetchWeights() {
    Asking asking;
    Base::ForSlabs(p.phases[0], [&](int row, int) { AskSlab(p.phases[0], row, asking); });
    ForRouterSlabs([&](int row) {
#pragma unroll 1
      for (int s = 0; s < RouterStages(); ++s) AskStage(e.router, row, s, nullptr, asking);
    });
    WaitBarrier(Routed(), 0);
    ForFirstProducts([&](int choice, int row) {
      const int at = routed.ids[choice] * FirstProducts().n + row;
      AskSlab(FirstProducts(), at, asking);
      AskSlab(FirstProducts(), at + Width(), asking);
    });
    Base::ForSlabs(SecondProducts(), [&](int row, int) {
#pragma unroll 1
      for (int choice = 0; choice < e.route.top_k; ++choice) {
        const int at = routed.ids[choice] * SecondProducts().n + row;
#pragma unroll 1
        for (int s = 0; s < ExpertStages(Width()); ++s)
          AskStage(SecondProducts().w, at, s, nullptr, asking);
      }
    });
    if (p.phase_count == 4)
      Base::ForSlabs(p.phases[3], [&](int row, int) { AskSlab(p.phases[3], row, asking); });
  }

  __device__ __forceinline__ int RouterStages() const {
    return FirstProducts().k * 2 / kChainStageK;  // a stage has as many bytes as of codes
  }

  // The row behind the norm: as codes, and as the router reads it.
  __device__ __forceinline__ void TakeNormed(unsigned long long before) const {
    const ChainPhase& phase = FirstProducts();
    const int first = static_cast<int>(threadIdx.x) * kGroup;
    const bool has = first < phase.k;
    float weight[kGroup] = {};
    if (has) {
      *reinterpret_cast<float4*>(weight) = *reinterpret_cast<const float4*>(phase.norm + first);
      *reinterpret_cast<float4*>(weight + 4) =
          *reinterpret_cast<const float4*>(phase.norm + first + 4);
    }
    if (threadIdx.x == 0) Base::WaitForAll(before, 1);
    SyncSome(1, kChainMultipliers);
    Eight eights[Base::kAhead] = {};
    if (has) eights[0] = Base::LoadEight(static_cast<const T*>(phase.x) + first);
    Base::AddSquares(eights);
    if (has) {
      Eight eight = eights[0];
      const float inverse = Base::InverseRms(0, phase.k);
#pragma unroll
      for (int i = 0; i < kGroup; ++i)
        eight.values[i] = FromFloat<T>(ToFloat(eight.values[i]) * inverse * weight[i] + 0.0f);
      Base::Code(0, first, eight);
      const int at = first / kRouterUnit * kRouterUnitBytes + first % kRouterUnit * 2;
      *reinterpret_cast<Eight*>(codes + e.row_at + at) = eight;
    }
    PublishToMatrices();
    SyncSome(1, kChainMultipliers);
  }

  // The logits of 16 experts, by the first warpgroup: of an instruction's 64 rows the first 16 are
  // a unit's of the router and the others nobody's, as are all columns but the first.
  __device__ __forceinline__ void MultiplyRouter(int row, ChainPlace& place) const {
    float sum[4] = {};
    const uint32_t x = SharedAddress(codes) + static_cast<uint32_t>(e.row_at);
    const auto release = [&](uint32_t barrier) {
      __syncwarp();
      if (lane == 0) Arrive(barrier);
    };
    uint32_t last = 0;
#pragma unroll 1
    for (int s = 0; s < RouterStages(); ++s) {
      WaitBarrier(full + 8 * place.at, place.parity);
      const uint32_t w = ring + static_cast<uint32_t>(place.at * kChainStageBytes);
      WarpgroupFence();
#pragma unroll
      for (int unit = 0; unit < kChainStageUnits; ++unit) {
        const uint64_t a = SwizzledOperand(
            __shfl_sync(~0u, w + static_cast<uint32_t>(unit * kChainSlab * kChainUnit), 0));
        const uint64_t b = SwizzledOperand(__shfl_sync(
            ~0u, x + static_cast<uint32_t>((s * kChainStageUnits + unit) * kRouterUnitBytes), 0));
#pragma unroll
        for (int step = 0; step < kRouterUnit / 16; ++step)
          AddTokens<T>(sum, OperandAt(a, step), OperandAt(b, step));
      }
      WarpgroupCommit();
      if (s > 0) {
        WarpgroupWait<1>();
        release(last);
      }
      last = empty + 8 * place.at;
      place.Advance(1, p.stages);
    }
    WarpgroupWait<0>();
    PinSums(sum);
    release(last);
    if (warp != 0 || lane % 4 != 0) return;
    e.logits[row + lane / 4] = __fadd_rn(sum[0], 0.0f);
    e.logits[row + lane / 4 + 8] = __fadd_rn(sum[2], 0.0f);
  }

  // One warp.
  __device__ __forceinline__ void FindExperts(unsigned long long before) const {
    if (lane == 0) Base::WaitForAll(before, 2);
    __syncwarp();
    for (int i = lane; i < e.route.experts; i += 32) routed.logits[i] = __ldcg(e.logits + i);
    RouteExpertsParams route = e.route;
    route.logits = routed.logits;
    route.ids = routed.ids;
    route.weights = routed.weights;
    __syncwarp();
    RouteToken(route, 0, routed.ranks, lane);
    __syncwarp();
    const bool counts = blockIdx.x == 0 && e.counts != nullptr && lane < route.top_k;
    if (counts && (e.counted == nullptr || *e.counted > 0)) e.counts[routed.ids[lane]] += 1;
  }

  // Scales of the second products do not lie as a stage's copy would need them.
  __device__ __forceinline__ void TakeScales() const {
    const ChainPhase& phase = SecondProducts();
    const int units = phase.k / kChainUnit, padded = ExpertStages(phase.k) * kChainStageUnits;
    int slab = 0;
    Base::ForSlabs(phase, [&](int row, int) {
      for (int i = static_cast<int>(threadIdx.x); i < e.route.top_k * padded;
           i += kChainMultipliers) {
        const int unit = i % padded, at = routed.ids[i / padded] * phase.n + row;
        routed.scales[slab][i] =
            unit < units ? phase.w_scales[at / kChainUnit * units + unit] : 0.0f;
      }
      ++slab;
    });
  }

  // What the gates opened for, as codes: a choice's begin with a stage.
  __device__ __forceinline__ void TakeGated(unsigned long long before) const {
    const ChainPhase& phase = SecondProducts();
    if (threadIdx.x == 0) Base::WaitForAll(before, 3);
    SyncSome(1, kChainMultipliers);
    const int each = phase.k / kGroup, padded = ExpertStages(phase.k) * kChainStageK;
    for (int i = static_cast<int>(threadIdx.x); i < e.route.top_k * each; i += kChainMultipliers) {
      const int choice = i / each, first = i % each * kGroup;
      const T* const row = static_cast<const T*>(phase.x) + choice * phase.x_stride;
      Base::Code(0, choice * padded + first, Base::LoadEight(row + first));
    }
    PublishToMatrices();
    SyncSome(1, kChainMultipliers);
    if (threadIdx.x == 0) Arrive(ready);
  }

  __device__ void MultiplyAll() {
    ChainPlace place, piece;
    unsigned long long before = 0;
    const int group = __shfl_sync(~0u, warp / 4, 0);
    place.Advance(group, p.stages);
    const auto plain = [&](const ChainPhase& phase, int number) {
      Base::TakeRows(phase, number, before);
      Base::ForSlabs(phase, [&](int, int) {
        Base::MultiplySlab(phase.k / kChainStageK, nullptr, place, piece);
      });
    };
    plain(p.phases[0], 0);
    TakeNormed(before);
    ForRouterSlabs([&](int row) {
      if (group == 0) {
        MultiplyRouter(row, place);
      } else {
        place.Advance(RouterStages(), p.stages);
      }
    });
    if (warp == 0) {
      Base::ArriveForAll();
      FindExperts(before);
    }
    SyncSome(1, kChainMultipliers);
    if (threadIdx.x == 0) {
      Arrive(Routed());
      Arrive(ready);
    }
    TakeScales();
    ForFirstProducts([&](int, int) {
      for (int part = 0; part < 2; ++part)
        Base::MultiplySlab(FirstProducts().k / kChainStageK, nullptr, place, piece);
    });
    TakeGated(before);
    int slab = 0;
    Base::ForSlabs(SecondProducts(), [&](int, int) {
      Base::MultiplySlab(e.route.top_k * ExpertStages(Width()), routed.scales[slab++], place,
                         piece);
    });
    if (p.phase_count == 4) plain(p.phases[3], 4);
  }

  // The finishing warp's lanes 16 and above have sums of nobody's token.
  __device__ __forceinline__ void FinishFirstProducts(ChainPlace& piece) const {
    const ChainPhase& phase = FirstProducts();
    ForFirstProducts([&](int choice, int row) {
      float half[2];
#pragma unroll
      for (float& value : half) {
        float sum[1] = {};
        Base::AddSlab(phase.k / kChainStageK, piece, sum);
        value = ToFloat(FromFloat<T>(__fmul_rn(sum[0], 1.0f)));
      }
      if (lane >= kChainSlab) return;
      static_cast<T*>(phase.out)[choice * phase.out_stride + row + lane] =
          FromFloat<T>(ActivateGate(kSilu, half[0], half[1]));
    });
  }

  // The sum over the experts, in the order in which they were chosen, of one slab.
  __device__ __forceinline__ float AddExperts(ChainPlace& piece) const {
    const int units = Width() / kChainUnit, stages = ExpertStages(Width());
    float total = 0.0f, sum = 0.0f;
    int choice = 0, of_expert = 0;
#pragma unroll 1
    for (int s = 0; s < e.route.top_k * stages; s += kChainGroups) {
      WaitBarrier(Base::done + 8 * piece.at, piece.parity);
#pragma unroll
      for (int g = 0; g < kChainGroups; ++g) {
        if (s + g >= e.route.top_k * stages) break;
        const int stage = piece.at * kChainGroups + g;
        const int token = lane / 16, left = units - of_expert * kChainStageUnits;
        const float4 by = *reinterpret_cast<const float4*>(
            Base::scales + stage * ChainScaleFloats(kExpertsChainTokens) +
            token * kChainStageUnits);
        const float4 four = *reinterpret_cast<const float4*>(
            Base::sums + stage * ChainSumFloats(kExpertsChainTokens) +
            (token * kChainSlab + lane % 16) * kChainStageUnits);
        sum = __fmaf_rn(four.x, by.x, sum);
        if (left > 1) sum = __fmaf_rn(four.y, by.y, sum);
        if (left > 2) sum = __fmaf_rn(four.z, by.z, sum);
        if (left > 3) sum = __fmaf_rn(four.w, by.w, sum);
        if (++of_expert < stages) continue;
        total = __fmaf_rn(routed.weights[choice++], __fmul_rn(sum, 1.0f), total);
        of_expert = 0;
        sum = 0.0f;
      }
      __syncwarp();
      if (lane == 0) Arrive(free + 8 * piece.at);
      piece.Advance(1, kChainPieces);
    }
    return total;
  }
  __device__ __forceinline__ void FinishSecondProducts(ChainPlace& piece) const {
    const ChainPhase& phase = SecondProducts();
    Base::ForSlabs(phase, [&](int row, int) {
      T residual[1];
      Base::AskResidual(phase, row, residual);
      const float total = AddExperts(piece);
      if (lane >= kChainSlab) return;
      static_cast<T*>(phase.out)[row + lane] = FromFloat<T>(__fadd_rn(total, ToFloat(residual[0])));
    });
  }

  __device__ void FinishAll() {
    ChainPlace piece;
    uint32_t parity = 0;
    WaitForInputs();
    Base::FinishPhase(p.phases[0], piece, parity);
    Base::ArriveForAll();
    WaitBarrier(ready, parity);
    parity ^= 1;
    FinishFirstProducts(piece);
    Base::ArriveForAll();
    WaitBarrier(ready, parity);
    parity ^= 1;
    FinishSecondProducts(piece);
    if (p.phase_count < 4) return;
    Base::ArriveForAll();
    Base::FinishPhase(p.phases[3], piece, parity);
  }

  __device__ void Run() { Base::RunWarp(*this); }
};

}  // namespace sluice::cuda
