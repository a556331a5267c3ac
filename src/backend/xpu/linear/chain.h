// What is known of a launch that was recorded for a graph, so that the next one can take it in:
// linears one after another, with norms and gated activations between them, become one launch where
// launches cost as much as the work (any_int8_linear_chain). Plain values; rows are F32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::xpu {

// A launch made rows [rows, width] at `out`: RMSNorm of rows of `source`, or their gated
// activation.
struct RowMaker {
  enum class Kind { kNone, kRmsNorm, kGated };  // as the kernel counts them
  Kind kind = Kind::kNone;
  const std::byte* source = nullptr;
  uint64_t source_stride = 0;  // elements
  const std::byte* norm_weight = nullptr;
  float eps = 0.0f;
  int activation = 0;  // KIND of the kernels
  const std::byte* out = nullptr;
  uint64_t out_stride = 0;
  int64_t rows = 0, width = 0;
};

struct LinearPhase {
  const std::byte* x = nullptr;
  uint64_t x_stride = 0;
  const std::byte* weight = nullptr;
  uint64_t group_bytes = 0;
  const std::byte* residual = nullptr;
  uint64_t residual_stride = 0;
  std::byte* out = nullptr;
  uint64_t out_stride = 0;
  int32_t n = 0, k = 0, groups_each = 1;
  RowMaker from;
};
inline constexpr size_t kChainPhases = 4;

// Of one number of rows, activation and weight format.
struct LinearChain {
  std::string options;  // but for KIND
  int activation = -1;  // KIND; -1: no gated activation among them
  int64_t m = 0;
  std::vector<LinearPhase> phases;

  // Whether a phase with these properties may follow.
  bool Takes(const std::string& its_options, int64_t its_m, const RowMaker& from) const;
};

// Whether rows may be made while `out` is written, F32 [m, n]: they may not lie in one another.
bool CanMakeBeside(const RowMaker& maker, const std::byte* out, uint64_t out_stride, int64_t n);

}  // namespace sluice::xpu
