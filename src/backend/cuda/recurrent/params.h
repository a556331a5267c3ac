// What the kernels of a recurrent layer are given. Shared by host and device; strides in elements.
#pragma once

#include <cstdint>

namespace sluice::cuda {

// What a call says of its sequences, and where their states lie.
struct StateTableParams {
  const int32_t* query_start;  // [sequences + 1]
  const int32_t* context;      // [sequences]
  const int32_t* block_table;  // [sequences, table_width]
  int64_t table_stride, rows;
  int64_t blocks, block_stride;  // of states
  int64_t numbers;               // of a state
  int32_t sequences, table_width, block_tokens, states;
};

struct ShortConvParams {
  StateTableParams table;
  const void* x;
  const float* weight;
  const float* bias;  // null: none
  float* state;
  void* out;
  int64_t x_stride, weight_stride, out_stride;
  int64_t channels;
  int32_t taps;
  bool gated;
};

inline constexpr unsigned kShortConvThreads = 128;  // a channel each

struct GatedDeltaParams {
  StateTableParams table;
  const void* qkv;
  const void* ba;
  const float* dt_bias;
  const float* a_log;
  float* state;
  void* out;
  int64_t qkv_stride, ba_stride, out_stride;
  int32_t k_heads, v_heads, k_head_dim, v_head_dim;
};

struct SsdParams {
  StateTableParams table;
  const void* vkq;
  const void* dt;  // null: steps of 1
  const float* dt_bias;
  const float* a;
  const float* skip;  // null: none
  float* state;
  void* out;
  int64_t vkq_stride, dt_stride, out_stride;
  float dt_scale;
  int32_t k_heads, v_heads, k_head_dim, v_head_dim;
};

struct SelectiveScanParams {
  StateTableParams table;
  const void* x;
  const void* dt;
  const void* bc;
  const float* dt_bias;
  const float* a;
  const float* skip;
  float* state;
  void* out;
  int64_t x_stride, dt_stride, bc_stride, a_stride, out_stride;
  int64_t channels;
  int32_t state_size;
};

inline constexpr unsigned kScanThreads = 64;  // a channel each

// A warp has eight columns of a state, four lanes to each.
inline constexpr unsigned kDeltaWarps = 2, kDeltaParts = 4;
inline constexpr unsigned kDeltaColumns = kDeltaWarps * 32 / kDeltaParts;

}  // namespace sluice::cuda
