// Linear in 16 bits by warpgroups (sm_90a).
#pragma once

#include "backend/cuda/kept_maps.h"
#include "backend/cuda/linear/cublaslt.h"
#include "backend/cuda/linear/wgmma_config.h"
#include "device/device.h"
#include "ops/op.h"

namespace sluice::cuda {

// Adds sm90_bf16_linear_wgmma and sm90_f16_linear_wgmma: weights of the type, row by row as the
// file has them, and activations of the same. Many rows go to cuBLASLt where it gives the bits that
// our kernels give few rows. REQUIRES: as RegisterLinear.
void RegisterWgmmaLinear(ops::OpTable& table);

// A product by our kernels, whose bits don't depend on the plan. `weight` keeps the weight's map;
// null: it is made for this call. REQUIRES: the plan is for this shape.
Status MultiplyWgmma(device::Stream& stream, const ProductKind& kind, const ProductCall& call,
                     const WgmmaPlan& plan, KeptMap* weight = nullptr);

}  // namespace sluice::cuda
