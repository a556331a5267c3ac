#include "backend/cuda/attention/latent_config.h"

#include "backend/cuda/attention/latent_params.h"
#include "backend/cuda/attention/plan.h"

namespace sluice::cuda {

using ops::LatentAttention;

namespace {

// What the kernels on warpgroup products take.
ops::Support MlaSupports(DType type, const LatentAttention::Desc& desc) {
  if (desc.activation != type || desc.kv.dtype != type) {
    return ops::Support::No(StrCat("multiplies ", Name(type), ", not ", Name(desc.activation),
                                   " by KV of ", Name(desc.kv.dtype)));
  }
  if (desc.key_width != kLatentKeyMax || desc.value_width != kLatentValueMax) {
    return ops::Support::No(StrCat("rows of ", desc.key_width, " numbers with values of ",
                                   desc.value_width, ", not ", kLatentKeyMax, " and ",
                                   kLatentValueMax));
  }
  // Listed positions are brought one by one, wherever they lie.
  if (desc.listed_max == 0 && !WidePageFits(desc.kv.kernel_block_tokens)) {
    return ops::Support::No(StrCat("blocks of ", desc.kv.kernel_block_tokens,
                                   " tokens, which are neither 8, 16 or 32 nor whole times 64"));
  }
  return ops::Support::Yes();
}

}  // namespace

ops::Support LatentSupports(AttentionProducts products, const LatentAttention::Desc& desc,
                            const device::DeviceFacts& facts) {
  if (desc.key_width > kLatentKeyMax || desc.value_width > kLatentValueMax) {
    return ops::Support::No(StrCat("rows of ", desc.key_width, " numbers with values of ",
                                   desc.value_width, "; up to ", kLatentKeyMax, " and ",
                                   kLatentValueMax));
  }
  if ((desc.key_width - desc.value_width) % 4 != 0) {
    return ops::Support::No(StrCat(desc.key_width - desc.value_width,
                                   " numbers before the value, which are no multiple of 4"));
  }
  if (desc.value_width % LatentParts(desc.value_width) != 0)
    return ops::Support::No(StrCat("values of ", desc.value_width, " numbers, which are odd"));
  if (products != AttentionProducts::kF32) {
    const DType type = products == AttentionProducts::kF16 ? DType::kF16 : DType::kBF16;
    if (ops::Support mla = MlaSupports(type, desc); !mla.ok) return mla;
  }
  return ops::RefLatentAttentionSupports(desc, facts);
}

int LatentRows(AttentionProducts products, const LatentAttention::Desc& desc) {
  if (products == AttentionProducts::kF32) return desc.heads;
  return static_cast<int>(CeilDiv(desc.heads, kMlaRows)) * kMlaRows;
}

AttentionConfig ConfigureLatent(AttentionProducts products, const LatentAttention::Desc& desc,
                                const AttentionSizes& sizes, int compute_units, bool aside) {
  AttentionConfig config;
  const bool plain = products == AttentionProducts::kF32;
  if (plain) {
    const int dim = desc.key_width <= 128 ? 128 : kLatentKeyMax;
    config.module = "any_f32_latent_attention";
    config.function = StrCat(config.module, "_", dim);
    config.rows = kPlainRows;
    config.threads = kPlainThreads;
    config.blocks_per_unit = 2;
    config.shared_bytes = LatentSharedBytes(dim);
  } else {
    config.module = products == AttentionProducts::kF16 ? "sm90_f16_latent_attention"
                                                        : "sm90_bf16_latent_attention";
    config.function = StrCat(config.module, desc.listed_max > 0 || aside ? "_listed" : "");
    config.rows = kMlaRows;
    config.threads = kMlaThreads;
    config.shared_bytes = kMlaSharedBytes;
  }
  if (sizes.tokens == 0 || sizes.sequences == 0) return config;
  ShareWork({.q_heads = LatentRows(products, desc),
             .kv_heads = 1,
             .values = desc.value_width,
             .parts = LatentParts(desc.value_width),
             .block_tokens = desc.listed_max > 0 ? 1 : desc.kv.kernel_block_tokens,
             .split_tokens = plain ? kSplitTokens : kMlaSplit},
            sizes, compute_units, config);
  if (!plain) config.kept_bytes = size_t{config.thread_blocks} * kMlaKeptBytes;
  return config;
}

}  // namespace sluice::cuda
