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

// Rows, or what gates make of them, as codes with a scale for each group of a row.
struct GroupQuantParams {
  const void* x;          // [rows, width], or gate and up [rows, 2 * width]
  const int32_t* counts;  // by part, the rows that it has; null: every row is there
  uint8_t* codes;
  void* scales;  // F32, or with ue8m0 bytes: [groups, rows]
  int64_t x_stride, codes_stride, scales_stride;
  int64_t of_part;  // rows of a part
  int32_t width;
  int32_t lanes;  // threads of a group, a power of two up to 32
  float gate_scale, out_scale;
  uint32_t kind;   // ActivationKind
  uint32_t gated;  // whether kind and the two scales are read
  uint32_t int8, ue8m0;
  uint32_t wide;        // every row of x, and of up, begins at a multiple of 16 bytes
  uint32_t wide_codes;  // every row of codes begins at a multiple of 8 bytes
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
