// Rows, or what a gated activation makes of rows, as codes with a scale for each group of a row: a
// thread has eight numbers of a row. A gated activation's are rounded to T before, as if they had
// been in memory.
#include "backend/cuda/activation/gates.cuh"
#include "backend/cuda/activation/params.h"
#include "backend/cuda/simt/codes.cuh"
#include "backend/cuda/simt/rehearsal.cuh"

namespace sluice::cuda {
namespace {

// What a thread takes a group from and puts its codes into: a row, or the stage of a rehearsal
// (rehearsal.cuh).
template <class T>
struct Place {
  const T *x, *up;
  uint8_t* codes;
  void* scales;  // where that of the group belongs
  int first;
};

template <class T>
__device__ __forceinline__ Place<T> PlaceOf(const GroupQuantParams& p, bool rehearses) {
  if (rehearses) return {OnStage<T>(), OnStage<T>(), OnStage<uint8_t>(), OnStage<float>(), 0};
  const int64_t row = blockIdx.x;
  const int first = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * kGroup;
  const T* x = static_cast<const T*>(p.x) + row * p.x_stride;
  const int64_t scale = first / (p.lanes * kGroup) * p.scales_stride + row;
  return {x, x + p.width, p.codes + row * p.codes_stride,
          static_cast<uint8_t*>(p.scales) + (p.ue8m0 != 0 ? scale : 4 * scale), first};
}

// Zeros behind the row. Both halves are asked for before either is used.
template <class T>
__device__ __forceinline__ void TakeNumbers(const GroupQuantParams& p, const Place<T>& place,
                                            float (&values)[kGroup]) {
  float up[kGroup];
  LoadGroup(place.x, place.first, p.width, p.wide != 0, values);
  LoadGroup(p.gated != 0 ? place.up : place.x, place.first, p.width, p.wide != 0, up);
  if (p.gated == 0) return;
#pragma unroll
  for (int i = 0; i < kGroup; ++i) {
    const float made = ActivateGate(p.kind, values[i] * p.gate_scale, up[i]) * p.out_scale;
    values[i] = place.first + i < p.width ? ToFloat(FromFloat<T>(made)) : 0.0f;
  }
}

template <class T>
__device__ __forceinline__ void QuantizeGroup(const GroupQuantParams& p, const Place<T>& place) {
  float values[kGroup];
  TakeNumbers<T>(p, place, values);
  float scale = ScaleFor(MostOfLanes(MostOf(values), p.lanes), p.int8 != 0 ? kI8Max : kF8Max);
  if (place.first >= p.width) return;
  const uint32_t exponent = Ue8m0Of(scale);
  if (p.ue8m0 != 0) scale = Ue8m0ToFloat(exponent);
  const Divider divide = Divider::By(scale);
  if (p.int8 != 0) {
    StoreI8Codes(place.codes, place.first, p.width, p.wide_codes != 0, divide, values);
  } else {
    StoreF8Codes(place.codes, place.first, p.width, p.wide_codes != 0, divide, values);
  }
  if (place.first % (p.lanes * kGroup) != 0) return;
  if (p.ue8m0 != 0) {
    *static_cast<uint8_t*>(place.scales) = static_cast<uint8_t>(exponent);
  } else {
    *static_cast<float*>(place.scales) = scale;
  }
}

// Of a gate that Silu is not for; a call, since it is rare.
__device__ __noinline__ float OddGate(float gate, float up) {
  return ActivateGate(kSilu, gate, up);
}

// What most models take of it, with nothing decided at run time: SiLU gates without factors as
// codes in F8 with a scale for each group of kCodeGroup, from and to rows that are read and written
// eight numbers at once.
template <class T>
__device__ __forceinline__ void GateCodes(const GroupQuantParams& p, const Place<T>& place) {
  const int first = place.first, end = first + kGroup;  // all of them are there, or none
  const bool there = first < p.width;
  float values[kGroup] = {}, up[kGroup];
  if (there) {
    LoadGroup(place.x, first, end, true, values);
    LoadGroup(place.up, first, end, true, up);
    bool ordinary = true;
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      ordinary = ordinary && IsOrdinary(values[i]);
      values[i] = Silu(values[i]) * up[i];
    }
    if (!ordinary) {
      float gate[kGroup];
      LoadGroup(place.x, first, end, true, gate);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) values[i] = OddGate(gate[i], up[i]);
    }
#pragma unroll
    for (int i = 0; i < kGroup; ++i) values[i] = ToFloat(FromFloat<T>(values[i]));
  }
  const float scale = ScaleFor(MostOfLanes(MostOf(values), kCodeLanes), kF8Max);
  if (!there) return;
  StoreF8Codes(place.codes, first, end, true, Divider::By(scale), values);
  if (first % kCodeGroup == 0) *static_cast<float*>(place.scales) = scale;
}

// Calls quantize(place) for the thread's part of a row, after a rehearsal.
template <class T, class Quantize>
__device__ __forceinline__ void ForPart(const GroupQuantParams& p, const Quantize& quantize) {
  bool rehearses = FewBlocks() && p.wide != 0 && p.wide_codes != 0;
  LetNextBegin();
#pragma unroll 1
  for (;; rehearses = false) {
    if (!rehearses) {
      WaitForInputs();
      const unsigned row = blockIdx.x, of_part = static_cast<unsigned>(p.of_part);
      if (p.counts != nullptr && static_cast<int>(row % of_part) >= p.counts[row / of_part]) return;
    }
    quantize(PlaceOf<T>(p, rehearses));
    if (!rehearses) return;
  }
}

}  // namespace

#define SLUICE_GROUP_QUANT(name, type)                                              \
  extern "C" __global__ void any_f32_group_quant_##name(const GroupQuantParams p) { \
    ForPart<type>(p, [&](const Place<type>& place) { QuantizeGroup(p, place); });   \
  }                                                                                 \
  extern "C" __global__ void __launch_bounds__(kActivationThreads, 12)              \
      any_f32_gate_codes_##name(const GroupQuantParams p) {                         \
    ForPart<type>(p, [&](const Place<type>& place) { GateCodes(p, place); });       \
  }
SLUICE_GROUP_QUANT(f32, float)
SLUICE_GROUP_QUANT(f16, __half)
SLUICE_GROUP_QUANT(bf16, __nv_bfloat16)

}  // namespace sluice::cuda
