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

// `aside`: of rows aside of the first branches of trees, each of which is a sequence of its own.
// REQUIRES: LatentSupports(products, desc) is ok.
AttentionConfig ConfigureLatent(AttentionProducts products, const ops::LatentAttention::Desc& desc,
                                const AttentionSizes& sizes, int compute_units, bool aside = false);

}  // namespace sluice::cuda
