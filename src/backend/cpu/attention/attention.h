// Runs attention by tiles of query rows on the stream's threads.
#pragma once

#include "backend/cpu/attention/kernels.h"
#include "ops/attention.h"
#include "ops/index_scores.h"
#include "ops/latent_attention.h"
#include "ops/top_k.h"

namespace sluice::cpu {

// What fits how many threads; a pure function, so that it can be tested and printed.
struct AttentionPlan {
  int tile_tokens = 1;    // query tokens of a tile
  bool by_split = false;  // one task per split of a tile, merged afterwards
};
AttentionPlan PlanAttention(const AttentionTiling& tiling, int64_t query_tokens, int64_t sequences,
                            int kv_heads, int group, int64_t splits, int threads);

Status RunAttention(const AttentionKernels& kernels, device::Stream& stream,
                    const ops::Attention::Desc& desc, const ops::Attention::Args& args);
// Each row of KV is a key and, for the kernels, all of it a value. REQUIRES: kernels in F32.
Status RunLatentAttention(const AttentionKernels& kernels, device::Stream& stream,
                          const ops::LatentAttention::Desc& desc,
                          const ops::LatentAttention::Args& args);

Status RunIndexScores(const IndexKernels& kernels, device::Stream& stream,
                      const ops::IndexScores::Desc& desc, const ops::IndexScores::Args& args);
Status RunTopK(device::Stream& stream, const ops::TopK::Desc& desc, const ops::TopK::Args& args);

}  // namespace sluice::cpu
