// RoPE and the KV write by sixteen bytes: a thread has two groups of eight numbers of a head, which
// hold eight pairs that are rotated or sixteen numbers that are not, and a head is a power of two
// of neighbouring threads. What is written has the bits of any_f32_rope_kv.cu.
#include "backend/cuda/rope_kv/kv_row.cuh"
#include "backend/cuda/simt/codes.cuh"
#include "backend/cuda/simt/rehearsal.cuh"

namespace sluice::cuda {
namespace {

// A thread's part of a head: numbers [first, first + 8) and [second, second + 8).
struct Part {
  int first, second;
  int pair;  // the first of its pairs; -1: it has none
};

__device__ __forceinline__ Part PartOf(const RopeKvParams& p, int part, bool is_v) {
  const int rotary = is_v ? 0 : p.rotary_dims;
  if (part * 2 * kGroup >= rotary) return {part * 2 * kGroup, part * 2 * kGroup + kGroup, -1};
  const int pair = part * kGroup;
  if (p.interleaved != 0) return {2 * pair, 2 * pair + kGroup, pair};
  return {pair, pair + rotary / 2, pair};
}

// The thread's numbers as the activation type keeps them after rotation. `row`: of the table; null:
// the position lies outside.
template <class T>
__device__ __forceinline__ void RotatePart(const RopeKvParams& p, const float* row, int pair,
                                           float (&low)[kGroup], float (&high)[kGroup]) {
  float cosine[kGroup], sine[kGroup];
  const float nan = __uint_as_float(0x7fc00000u);
  if (row != nullptr) {
    LoadGroup(row, pair, p.rotary_dims, true, cosine);
    LoadGroup(row + p.rotary_dims / 2, pair, p.rotary_dims, true, sine);
  } else {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) cosine[i] = sine[i] = nan;
  }
  const auto turn = [&](int i, float& a, float& b) {
    const float x = a, y = b;
    a = ToFloat(FromFloat<T>(x * cosine[i] - y * sine[i]));
    b = ToFloat(FromFloat<T>(x * sine[i] + y * cosine[i]));
  };
  if (p.interleaved != 0) {
#pragma unroll
    for (int i = 0; i < kGroup / 2; ++i) {
      turn(i, low[2 * i], low[2 * i + 1]);
      turn(i + kGroup / 2, high[2 * i], high[2 * i + 1]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) turn(i, low[i], high[i]);
  }
}

__device__ __forceinline__ void StoreKvGroup(uint32_t format, const KvRow& row, int first,
                                             float scale, const float (&values)[kGroup]) {
  const int64_t at = row.first + first;
  switch (static_cast<DType>(format)) {
    case DType::kF32:
      StoreGroup(static_cast<float*>(row.data), at, at + kGroup, true, values);
      return;
    case DType::kF16:
      StoreGroup(static_cast<__half*>(row.data), at, at + kGroup, true, values);
      return;
    case DType::kBF16:
      StoreGroup(static_cast<__nv_bfloat16*>(row.data), at, at + kGroup, true, values);
      return;
    default:
      break;
  }
  uint8_t* const codes = static_cast<uint8_t*>(row.data);
  // A scale of zero or NaN makes codes of zero.
  if (!(scale > 0.0f)) {
    const uint32_t none[2] = {};
    StoreCodeWords(codes, at, at + kGroup, true, none);
  } else if (static_cast<DType>(format) == DType::kF8E4M3) {
    StoreF8Codes(codes, at, at + kGroup, true, Divider::By(scale), values);
  } else {
    StoreI8Codes(codes, at, at + kGroup, true, Divider::By(scale), values);
  }
}

// In a rehearsal (rehearsal.cuh) of a head that stands nowhere.
template <class T>
__device__ __forceinline__ void RotateAndWrite(const RopeKvParams& p, bool rehearses) {
  const int index = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  const int heads = p.q_heads + 2 * p.kv_heads, h = index / p.lanes;
  const int64_t token = blockIdx.x;
  const bool is_q = h < p.q_heads, is_v = h >= p.q_heads + p.kv_heads;
  const Part part = PartOf(p, index % p.lanes, is_v);
  const bool there = h < heads && part.first < p.head_dim;
  T* head = static_cast<T*>(p.qkv) + token * p.qkv_stride + int64_t{h} * p.head_dim;
  if (rehearses) head = OnStage<T>();
  float low[kGroup] = {}, high[kGroup] = {};
  if (there) {
    LoadGroup(head, part.first, p.head_dim, true, low);
    LoadGroup(head, part.second, p.head_dim, true, high);
  }
  KvRow row = {};
  if (there && !is_q) {
    row = FindRow(p, rehearses ? 0 : p.slots[token], is_v, (h - p.q_heads) % p.kv_heads);
    if (rehearses) {
      row.data = OnStage<void>();
      row.first = 0;
      if (row.scale != nullptr) row.scale = OnStage<float>();
    }
  }
  if (there && part.pair >= 0) {
    const int position = rehearses ? 0 : p.positions[token];
    const bool inside = position >= 0 && position < p.positions_max;
    RotatePart<T>(p, inside ? p.table + int64_t{position} * p.rotary_dims : nullptr, part.pair, low,
                  high);
  }
  if (there && !is_v && (is_q || p.q_out == nullptr)) {
    T* kept = p.q_out == nullptr
                  ? head
                  : static_cast<T*>(p.q_out) + token * p.q_out_stride + int64_t{h} * p.head_dim;
    if (rehearses) kept = OnStage<T>();
    StoreGroup(kept, part.first, p.head_dim, true, low);
    StoreGroup(kept, part.second, p.head_dim, true, high);
  }
  const bool has_low = row.data != nullptr && part.first < row.width;
  const bool has_high = row.data != nullptr && part.second < row.width;
  float scale = 1.0f;
  if (p.k_scale != nullptr) {
    const uint32_t most = max(has_low ? MostOf(low) : 0, has_high ? MostOf(high) : 0);
    const uint32_t of_row = MostOfLanes(most, p.lanes);
    scale = RowScale(p.kv, __uint_as_float(of_row), of_row < 0x7f800000u);
    if (has_low && index % p.lanes == 0) *row.scale = scale;
  }
  if (has_low) StoreKvGroup(p.kv, row, part.first, scale, low);
  if (has_high) StoreKvGroup(p.kv, row, part.second, scale, high);
}

template <class T>
__device__ void Rotate(const RopeKvParams& p) {
  bool rehearses = FewBlocks() && p.head_dim * 4 <= static_cast<int>(sizeof(Stage));
  LetNextBegin();
#pragma unroll 1
  for (;; rehearses = false) {
    if (!rehearses) WaitForInputs();
    RotateAndWrite<T>(p, rehearses);
    if (!rehearses) return;
  }
}

}  // namespace

#define SLUICE_ROPE_KV_WIDE(name, type) \
  extern "C" __global__ void any_f32_rope_kv_wide_##name(const RopeKvParams p) { Rotate<type>(p); }
SLUICE_ROPE_KV_WIDE(f32, float)
SLUICE_ROPE_KV_WIDE(f16, __half)
SLUICE_ROPE_KV_WIDE(bf16, __nv_bfloat16)

}  // namespace sluice::cuda
