// What the host tells attention kernels of a call, for attention and latent attention.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/attention/params.h"
#include "ops/attention.h"

namespace sluice::cuda {

// All that the arguments say; tiles, thread blocks, plan and partial results are the caller's.
AttentionParams ParamsOf(const ops::Attention::Desc& desc, const ops::Attention::Args& args);

// Bytes of a step's plan, rounded, so that what lies behind it is aligned.
size_t PlanBytes(int64_t sequences);

}  // namespace sluice::cuda
