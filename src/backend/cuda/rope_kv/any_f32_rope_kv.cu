// RoPE and the KV write for heads of any size: a warp has one head of one token, a lane the same
// numbers of it in every pass, so that the head is rotated in place without a barrier. A position
// outside the table rotates by NaN, a slot outside the cache is not written.
#include "backend/cuda/rope_kv/kv_row.cuh"
#include "backend/cuda/simt/group.cuh"
#include "backend/cuda/simt/rehearsal.cuh"

namespace sluice::cuda {
namespace {

// What turns a head.
struct Angles {
  bool rotates;
  const float* row;  // of the table; null: the position lies outside
};

// Calls visit(i, value) for this lane's numbers of the head as the activation type keeps them after
// rotation. A pair's numbers belong to one lane, which reads both before it visits either.
template <class T, class Visit>
__device__ void ForRotated(const RopeKvParams& p, const T* head, const Angles& angles, int lane,
                           Visit visit) {
  const int rotary = angles.rotates ? p.rotary_dims : 0, pairs = rotary / 2;
  const float nan = __uint_as_float(0x7fc00000u);
  for (int i = lane; i < pairs; i += 32) {
    const int first = p.interleaved != 0 ? 2 * i : i;
    const int second = p.interleaved != 0 ? 2 * i + 1 : i + pairs;
    const float cosine = angles.row == nullptr ? nan : angles.row[i];
    const float sine = angles.row == nullptr ? nan : angles.row[pairs + i];
    const float a = ToFloat(head[first]), b = ToFloat(head[second]);
    visit(first, ToFloat(FromFloat<T>(a * cosine - b * sine)));
    visit(second, ToFloat(FromFloat<T>(a * sine + b * cosine)));
  }
  for (int i = rotary + lane; i < p.head_dim; i += 32) visit(i, ToFloat(head[i]));
}

// In a rehearsal (rehearsal.cuh) of a head that stands nowhere.
template <class T>
__device__ __forceinline__ void RotateAndWrite(const RopeKvParams& p, bool rehearses) {
  const int lane = threadIdx.x % 32, heads = p.q_heads + 2 * p.kv_heads;
  const int64_t index = int64_t{blockIdx.x} * kRopeKvWarps + threadIdx.x / 32;
  const int64_t token = index / heads;
  const int h = static_cast<int>(index % heads);
  if (token >= p.tokens) return;
  const bool is_q = h < p.q_heads, is_v = h >= p.q_heads + p.kv_heads;
  T* head = static_cast<T*>(p.qkv) + token * p.qkv_stride + int64_t{h} * p.head_dim;
  if (rehearses) head = OnStage<T>();
  Angles angles = {p.rotary_dims > 0 && !is_v, nullptr};
  if (angles.rotates) {
    const int64_t position = rehearses ? 0 : p.positions[token];
    const bool there = position >= 0 && position < p.positions_max;
    if (there) angles.row = p.table + position * p.rotary_dims;
  }
  KvRow row = {};
  if (!is_q) {
    row = FindRow(p, rehearses ? 0 : p.slots[token], is_v, (h - p.q_heads) % p.kv_heads);
    if (rehearses) {
      row.data = OnStage<void>();
      row.first = 0;
      if (row.scale != nullptr) row.scale = OnStage<float>();
    }
  }
  float scale = 1.0f;
  if (row.data != nullptr && row.scale != nullptr && row.width > 0) {
    float largest = 0.0f;
    bool finite = true;
    ForRotated(p, head, angles, lane, [&](int i, float value) {
      if (i >= row.width) return;
      largest = fmaxf(largest, fabsf(value));
      finite = finite && isfinite(value);
    });
    scale = RowScale(p.kv, WarpMax(largest), __all_sync(~0u, finite) != 0);
    if (lane == 0) *row.scale = scale;
  }
  T* kept = p.q_out == nullptr ? head : nullptr;
  if (p.q_out != nullptr && is_q)
    kept = rehearses ? OnStage<T>()
                     : static_cast<T*>(p.q_out) + token * p.q_out_stride + int64_t{h} * p.head_dim;
  ForRotated(p, head, angles, lane, [&](int i, float value) {
    if (kept != nullptr && !is_v) kept[i] = FromFloat<T>(value);
    if (row.data == nullptr || i >= row.width) return;
    // A scale of zero or NaN makes codes of zero.
    const float code = row.scale == nullptr ? value : scale > 0.0f ? value / scale : 0.0f;
    StoreKv(p.kv, row.data, row.first + i, code);
  });
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

#define SLUICE_ROPE_KV(name, type) \
  extern "C" __global__ void any_f32_rope_kv_##name(const RopeKvParams p) { Rotate<type>(p); }
SLUICE_ROPE_KV(f32, float)
SLUICE_ROPE_KV(f16, __half)
SLUICE_ROPE_KV(bf16, __nv_bfloat16)

}  // namespace sluice::cuda
