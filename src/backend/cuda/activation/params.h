// What the kernels of activations are given. Shared by host and device; strides in elements.
#pragma once

#include <cstdint>

namespace sluice::cuda {

// What a kernel knows of ops::Activation; the host's header is not for it.
enum ActivationKind : uint32_t { kSilu, kGeluTanh, kGeluErf, kReluSquared, kClampedSwiglu };
inline constexpr float kSwigluLimit = 7.0f, kSwigluSlope = 1.702f;

struct GatedActivationParams {
  const void* gate_up;
  void* out;
  int64_t gate_up_stride, out_stride;
  int64_t tokens, width;
  float gate_scale, out_scale;
  uint32_t kind;  // ActivationKind
  uint32_t wide;  // gate, up and out of every row begin at multiples of 16 bytes
};

struct PlainActivationParams {
  void* x;
  int64_t stride;
  int64_t tokens, width;
  uint32_t kind;  // ActivationKind
  uint32_t wide;
};

struct SoftCapParams {
  void* x;
  int64_t stride;
  int64_t rows, columns;
  float cap;
  uint32_t wide;
};

struct TopKParams {
  void* x;
  int64_t stride;
  int64_t width;
  float deviations;
};

inline constexpr unsigned kTopKThreads = 256;        // a row
inline constexpr unsigned kActivationThreads = 128;  // a group of eight numbers each

}  // namespace sluice::cuda
