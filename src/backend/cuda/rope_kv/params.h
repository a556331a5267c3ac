// What the kernel of RoPE and the KV write is given. Shared by host and device; strides in
// elements.
#pragma once

#include <cstdint>

namespace sluice::cuda {

struct RopeKvParams {
  void* qkv;
  void* q_out;  // null: rotated values stay in qkv
  const int32_t* positions;
  const float* table;
  const int32_t* slots;
  void* k;
  void* v;
  float* k_scale;  // null: the format has no scales
  float* v_scale;
  int64_t qkv_stride, q_out_stride;
  int64_t k_strides[3], v_strides[3];              // block, head, token
  int64_t k_scale_strides[2], v_scale_strides[2];  // block, head
  int64_t tokens, positions_max, slots_max;
  int32_t block_tokens;
  int32_t q_heads, kv_heads, head_dim, v_head_dim;
  int32_t rotary_dims;
  uint32_t interleaved;
  uint32_t kv;    // DType
  int32_t lanes;  // of the kernel by sixteen bytes: neighbouring threads that have a head
};

// RMSNorm of the heads of Q and K before they are rotated.
struct NormedRopeKvParams {
  RopeKvParams rope;
  const float* q_weight;
  const float* k_weight;
  float eps;
};
inline constexpr int kNormedHeadMax = 256;

inline constexpr unsigned kRopeKvWarps = 4;                  // a head of a token each
inline constexpr unsigned kRopeKvThreads = 128;              // of a token
inline constexpr int kRopeKvNumbers = 16;                    // a thread
inline constexpr int kRopeKvWideHead = 32 * kRopeKvNumbers;  // a warp's threads at most

}  // namespace sluice::cuda
