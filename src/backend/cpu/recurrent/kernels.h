// The kernels of a recurrent layer of each instruction set: plain functions over parts of a call
// that may run at the same time.
#pragma once

#include <cstdint>

namespace sluice::cpu {

// What a sequence does in a call, and where its states lie.
struct StateRun {
  int64_t begin = 0, tokens = 0;  // rows; at least one
  const float* read = nullptr;    // null: zeros. May be `write`
  float* write = nullptr;
};

struct ShortConvCall {
  const float* x = nullptr;       // [tokens, channels], or three times as wide where it is gated
  const float* weight = nullptr;  // [channels, kernel]
  const float* bias = nullptr;    // [channels], or null
  float* out = nullptr;           // [tokens, channels]
  int64_t x_stride = 0, out_stride = 0, weight_stride = 0;
  int64_t channels = 0;
  int kernel = 0;
  bool gated = false;
};

// Channels that one call of the kernel takes at most.
inline constexpr int kConvChannels = 64;
inline constexpr int kConvKernelMax = 8;

struct DeltaCall {
  const float* qkv = nullptr;
  const float* ba = nullptr;
  const float* dt_bias = nullptr;
  const float* a_log = nullptr;
  float* out = nullptr;
  int64_t qkv_stride = 0, ba_stride = 0, out_stride = 0;
  int k_heads = 0, v_heads = 0, k_head_dim = 0, v_head_dim = 0;
};

// A head's q and k of a few tokens lie on the stack.
inline constexpr int kDeltaKeyDimMax = 256;
// Columns of a state that are worked on together.
inline constexpr int kDeltaColumns = 32;

struct SsdCall {
  const float* vkq = nullptr;
  const float* dt = nullptr;  // null: steps of 1
  const float* dt_bias = nullptr;
  const float* a = nullptr;
  const float* skip = nullptr;  // null: none
  float* out = nullptr;
  int64_t vkq_stride = 0, dt_stride = 0, out_stride = 0;
  float dt_scale = 1.0f;
  int k_heads = 0, v_heads = 0, k_head_dim = 0, v_head_dim = 0;
};

// Columns of a state that are worked on together.
inline constexpr int kSsdColumns = 16;

struct ScanCall {
  const float* x = nullptr;        // [tokens, channels]
  const float* dt = nullptr;       // [tokens, channels]
  const float* bc = nullptr;       // [tokens, 2 * state_size]
  const float* dt_bias = nullptr;  // [channels]
  const float* skip = nullptr;     // [channels]
  float* out = nullptr;            // [tokens, channels]
  int64_t x_stride = 0, dt_stride = 0, bc_stride = 0, out_stride = 0;
  int64_t channels = 0;
  int state_size = 0;
};

// Channels that one call of the kernel takes at most; their rates lie on the stack.
inline constexpr int kScanChannels = 16, kScanStateMax = 256;

struct RecurrentKernels {
  // One sequence's channels [first, first + count), count <= kConvChannels. `taps`: their weights
  // as [kernel, kConvChannels]. Pointers of the run are to the state's first channel.
  void (*short_conv)(const ShortConvCall& call, const float* taps, const StateRun& run,
                     int64_t first, int count);
  // One sequence's value head, columns [first, end); `first` is a multiple of kDeltaColumns.
  // Pointers of the run are to the head's state.
  void (*gated_delta)(const DeltaCall& call, const StateRun& run, int head, int first, int end);
  // The same, where `first` is a multiple of kSsdColumns.
  void (*ssd)(const SsdCall& call, const StateRun& run, int head, int first, int end);
  // One sequence's channels [first, first + count), count <= kScanChannels. `rates`: theirs as
  // [state_size, kScanChannels]. Pointers of the run are to the state's first channel.
  void (*selective_scan)(const ScanCall& call, const float* rates, const StateRun& run,
                         int64_t first, int count);
};

extern const RecurrentKernels kAvx2RecurrentKernels, kAvx512RecurrentKernels;

}  // namespace sluice::cpu
