// The RoPE kernels of each instruction set: plain functions over ranges of tokens.
#pragma once

#include <cstdint>

namespace sluice::cpu {

// The widest head that the kernels' buffer on the stack takes.
inline constexpr int kRopeHeadDimMax = 1024;

struct RopeKvCall {
  float* qkv = nullptr;                // [tokens, (q_heads + 2 kv_heads) * head_dim]
  float* q_out = nullptr;              // null: rotated Q and K stay in qkv
  const int32_t* positions = nullptr;  // [tokens]
  const float* table = nullptr;        // [positions, rotary_dims]
  const int32_t* slots = nullptr;      // [tokens]
  void* k = nullptr;                   // [blocks, kv_heads, block_tokens, head_dim]
  void* v = nullptr;                   // the same with v_head_dim
  float* k_scale = nullptr;            // [blocks, kv_heads, block_tokens] where k and v are codes
  float* v_scale = nullptr;            // the same
  int64_t qkv_stride = 0, q_out_stride = 0, k_block_stride = 0, v_block_stride = 0;
  int64_t k_scale_block_stride = 0, v_scale_block_stride = 0;
  int64_t block_tokens = 0;
  int q_heads = 0, kv_heads = 0, head_dim = 0, v_head_dim = 0, rotary_dims = 0;
  bool interleaved = false;
};

using RopeKvKernel = void (*)(const RopeKvCall& call, int64_t begin, int64_t end);

// By the type of the KV.
struct RopeKvKernels {
  RopeKvKernel f32, f16, bf16, f8, i8;
};

extern const RopeKvKernels kAvx2RopeKvKernels, kAvx512RopeKvKernels;

}  // namespace sluice::cpu
