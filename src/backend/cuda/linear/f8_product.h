// The two halves of a product in F8, for a stream that belongs to the calling thread.
#pragma once

#include "backend/cuda/kept_maps.h"
#include "backend/cuda/linear/f8_config.h"
#include "backend/cuda/linear/grouping.h"
#include "device/device.h"
#include "ops/linear.h"

namespace sluice::cuda {

// x as codes, rows by place where it is grouped, and their scales: what was given as such, or else
// dense rows in the stream's scratch memory.
struct F8Codes {
  const std::byte* codes = nullptr;
  int64_t row_bytes = 0;
  const float* scales = nullptr;  // [1], [m], or by unit of k and then token
  int64_t scale_stride = 0;       // from unit to unit
};

// What the binding of a weight keeps: the plan for the rows of the call before, and the map of the
// weight in its tiles.
struct F8Kept {
  ops::LastValue<int64_t, F8Plan> plan;  // by rows of out
  KeptMap weight;
};

// Whether x and W become products in F8.
ops::Support SupportsF8(const ops::Linear::Desc& desc);

// For one product, or with `grouping` for those of experts: args then has x and out of all of them,
// and their weights one behind another.
// REQUIRES for both: the descriptor is one that SupportsF8 takes, out has rows.
Result<F8Codes> QuantizeF8(device::Stream& stream, const ops::Linear::Desc& desc,
                           const ops::Linear::Args& args, const Grouping* grouping = nullptr);
// The bits of out don't depend on the plan. `weight` keeps the weight's map; null: it is made for
// this call. REQUIRES: the plan is for this shape.
Status MultiplyF8(device::Stream& stream, const ops::Linear::Desc& desc,
                  const ops::Linear::Args& args, const F8Codes& x, const F8Plan& plan,
                  const Grouping* grouping = nullptr, KeptMap* weight = nullptr);

}  // namespace sluice::cuda
