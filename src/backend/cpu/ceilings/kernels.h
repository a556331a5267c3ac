// The loops that a meter times, one table entry each; every one is compiled for its instruction
// set, so nothing here may generate code.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::cpu {

// Operands of every loop of peaks, random and never zero: dot products slow down on a warm chip,
// and multiplying zeros keeps it cool.
struct alignas(64) PeakOperands {
  float f32[2][512];      // magnitudes in [0.5, 1)
  uint16_t bf16[2][512];  // the same
  int8_t int8[2][1024];
};

struct PeakKernel {
  const char* name;        // as the kernels that use the instruction are: <set>_<operands>
  const char* spelling;    // for people
  const char* capability;  // of DeviceFacts::capabilities
  int64_t macs;            // multiply-adds of one round
  void (*run)(int64_t rounds, const PeakOperands& operands);
};

extern const PeakKernel kAvx2F32Peak, kAvx2Int8Peak;
extern const PeakKernel kAvx512F32Peak, kAvx512Int8Peak, kAvx512Bf16Peak;
extern const PeakKernel kAmxInt8Peak, kAmxBf16Peak;

// Orders of access to a thread's share: it goes through so many streams at once, a few lines of
// each in turn, and asks for lines so far ahead (0: leaves that to the hardware).
inline constexpr int kReadPatterns = 5;
// Reads nearly all of `bytes` (at least 64 KiB) and returns how much.
using ReadKernel = size_t (*)(const std::byte* data, size_t bytes);

struct ReadKernels {
  ReadKernel patterns[kReadPatterns];
};
extern const ReadKernels kRefReadKernels, kAvx2ReadKernels, kAvx512ReadKernels;

}  // namespace sluice::cpu
