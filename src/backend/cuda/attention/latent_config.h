// Which kernel latent attention runs and on what grid: as for attention (config.h).
#pragma once

#include "backend/cuda/attention/config.h"
#include "ops/latent_attention.h"

namespace sluice::cuda {

ops::Support LatentSupports(AttentionProducts products, const ops::LatentAttention::Desc& desc,
                            const device::DeviceFacts& facts);

// Rows that a token has: its heads, made up to whole tiles where a tile has rows of one token
// alone.
int LatentRows(AttentionProducts products, const ops::LatentAttention::Desc& desc);

// REQUIRES: LatentSupports(products, desc) is ok.
AttentionConfig ConfigureLatent(AttentionProducts products, const ops::LatentAttention::Desc& desc,
                                const AttentionSizes& sizes, int compute_units);

}  // namespace sluice::cuda
