// Which kernel linear runs and over which groups: a pure function of the descriptor, the rows of a
// call and the device's facts.
#pragma once

#include <string>

#include "backend/xpu/launch_shape.h"
#include "ops/grouped_linear.h"
#include "ops/linear.h"

namespace sluice::xpu {

struct LinearConfig {
  const char* function = "";
  std::string options;  // the program's: the same for every m, n and k
  LaunchShape shape;
  int groups_each = 1;  // groups of 16 outputs that a work-item does, one after another
};

// any_f32_linear, a work-item for each 16 outputs. REQUIRES: m >= 1.
LinearConfig ConfigureLinear(const ops::Linear::Desc& desc, int64_t m,
                             const device::DeviceFacts& facts);

// any_f32_grouped_linear, a work-item for each 16 outputs of one place, or of several places where
// most experts have several. REQUIRES: places >= 1.
LinearConfig ConfigureGroupedLinear(const ops::GroupedLinear::Desc& desc, int64_t places,
                                    const device::DeviceFacts& facts);

// The longest rows of x that any_int8_linear rounds; they lie in a work-item's own memory.
inline constexpr int64_t kInt8KMax = 32768;

// any_int8_linear: a few work-groups of one work-item for each compute unit, since each rounds its
// rows of x for itself. Its programs differ by the size of k too: up to 2048, 8192, kInt8KMax.
// REQUIRES: m >= 1, k <= kInt8KMax, a weight in nibbles that are integers.
LinearConfig ConfigureInt8Linear(const ops::Linear::Desc& desc, int64_t m,
                                 const device::DeviceFacts& facts);

// any_int8_linear_chain, m rows of F32, without KIND: a work-group for each compute unit, tasks of
// groups_each groups. `desc`: of any linear of the chain, which agree in `options`.
LinearConfig ConfigureInt8Chain(const ops::Linear::Desc& desc, int64_t m,
                                const device::DeviceFacts& facts);

}  // namespace sluice::xpu
