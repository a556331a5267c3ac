// RoPE and KV write of F32 rows over any F32x16. Products and sums are rounded one by one, as in
// the reference, whose bits these are.
#pragma once

#include "backend/cpu/rope_kv/kernels.h"
#include "backend/cpu/simd/half.h"

namespace sluice::cpu {

template <class V, class Kv>
struct RopeKv {
  static constexpr int kLanes = 16;

  // Pairs (i, i + pairs).
  static void RotateHalves(const float* row, int pairs, const float* in, float* out) {
    for (int i = 0; i < pairs; i += kLanes) {
      const int n = pairs - i < kLanes ? pairs - i : kLanes;
      const V cosine = V::LoadFirst(row + i, n), sine = V::LoadFirst(row + pairs + i, n);
      const V a = V::LoadFirst(in + i, n), b = V::LoadFirst(in + pairs + i, n);
      (a * cosine - b * sine).StoreFirst(out + i, n);
      (a * sine + b * cosine).StoreFirst(out + pairs + i, n);
    }
  }

  // Pairs (2i, 2i + 1).
  static void RotatePairs(const float* row, int pairs, const float* in, float* out) {
    int i = 0;
    for (; i + kLanes / 2 <= pairs; i += kLanes / 2) {
      const V cosine = V::LoadTwice(row + i);
      const V sine = V::NegateEven(V::LoadTwice(row + pairs + i));
      const V x = V::Load(in + 2 * i);
      (x * cosine + V::SwapPairs(x) * sine).Store(out + 2 * i);
    }
    for (; i < pairs; ++i) {
      const float a = in[2 * i], b = in[2 * i + 1];
      out[2 * i] = a * row[i] - b * row[pairs + i];
      out[2 * i + 1] = a * row[pairs + i] + b * row[i];
    }
  }

  template <class T>
  static void Copy(const float* in, int n, T* out) {
    int i = 0;
    for (; i + kLanes <= n; i += kLanes) V::Load(in + i).Store(out + i);
    if (i < n) V::LoadFirst(in + i, n - i).StoreFirst(out + i, n - i);
  }

  // A row of the cache, and its scale where it has one; see ops::StoreKvRow.
  static void Keep(const float* in, int n, Kv* out, float* scale) {
    if constexpr (!kIsCode<Kv>) {
      Copy(in, n, out);
    } else {
      V largest = V::Zero();
      uint32_t finite = ~0u;
      for (int i = 0; i < n; i += kLanes) {
        const V x = V::LoadFirst(in + i, n - i < kLanes ? n - i : kLanes);
        finite &= V::Equal(x - x, V::Zero());
        largest = V::Max(V::Abs(x), largest);
      }
      *scale = (finite & 0xffff) == 0xffff ? largest.Largest() / Kv::kMax : __builtin_nanf("");
      const bool zeros = !(*scale > 0.0f);
      for (int i = 0; i < n; i += kLanes) {
        const int count = n - i < kLanes ? n - i : kLanes;
        const V codes = zeros ? V::Zero() : V::LoadFirst(in + i, count) / V::Set1(*scale);
        codes.StoreFirst(out + i, count);
      }
    }
  }

  static void Rotate(const RopeKvCall& call, int64_t token, const float* in, float* out) {
    const int pairs = call.rotary_dims / 2;
    if (pairs > 0) {
      const float* row = call.table + int64_t{call.positions[token]} * call.rotary_dims;
      if (call.interleaved) {
        RotatePairs(row, pairs, in, out);
      } else {
        RotateHalves(row, pairs, in, out);
      }
    }
    if (in != out) Copy(in + 2 * pairs, call.head_dim - 2 * pairs, out + 2 * pairs);
  }

  template <class T>
  static T* At(const RopeKvCall& call, void* cache, int64_t block_stride, int width, int64_t slot,
               int head) {
    const int64_t block = slot / call.block_tokens, offset = slot % call.block_tokens;
    return static_cast<T*>(cache) + block * block_stride +
           (head * call.block_tokens + offset) * width;
  }
  static float* ScaleAt(const RopeKvCall& call, float* scales, int64_t block_stride, int64_t slot,
                        int head) {
    if constexpr (!kIsCode<Kv>) return nullptr;
    return At<float>(call, scales, block_stride, 1, slot, head);
  }

  static void Run(const RopeKvCall& call, int64_t begin, int64_t end) {
    alignas(64) float rotated[kRopeHeadDimMax];
    const int d = call.head_dim;
    for (int64_t t = begin; t < end; ++t) {
      float* q = call.qkv + t * call.qkv_stride;
      float* k = q + int64_t{call.q_heads} * d;
      const float* v = k + int64_t{call.kv_heads} * d;
      float* q_out = call.q_out != nullptr ? call.q_out + t * call.q_out_stride : q;
      for (int h = 0; h < call.q_heads; ++h) Rotate(call, t, q + h * d, q_out + h * d);
      const int64_t slot = call.slots[t];
      for (int h = 0; h < call.kv_heads; ++h) {
        float* k_out = call.q_out != nullptr ? rotated : k + h * d;
        Rotate(call, t, k + h * d, k_out);
        if (slot < 0) continue;
        Keep(k_out, d, At<Kv>(call, call.k, call.k_block_stride, d, slot, h),
             ScaleAt(call, call.k_scale, call.k_scale_block_stride, slot, h));
        if (call.v_head_dim == 0) continue;
        Keep(v + h * d, call.v_head_dim,
             At<Kv>(call, call.v, call.v_block_stride, call.v_head_dim, slot, h),
             ScaleAt(call, call.v_scale, call.v_scale_block_stride, slot, h));
      }
    }
  }
};

}  // namespace sluice::cpu
