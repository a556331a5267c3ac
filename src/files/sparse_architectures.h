// The rows of files/architectures.cc for models whose attention chooses what it sees.
#pragma once

#include "files/architecture_parts.h"

namespace sluice::files {

inline constexpr HfExperts kSparseExperts = {.layers = ExpertLayers::kBehindDense,
                                             .renormalize = true,
                                             .score = RouterScore::kSigmoid,
                                             .bias = "gate.e_score_correction_bias",
                                             .dense_layers = 3,
                                             .shared = "mlp.shared_experts."};

// clang-format off
inline constexpr ArchitectureInfo kSparseRows[] = {
    // DeepSeek V3.2 ("DeepSeek-V3.2-Exp: Boosting Long-Context Efficiency with DeepSeek Sparse
    // Attention"): V3's form; rows see the positions that an indexer chooses.
    {.architecture = Architecture::kDeepseekV32, .name = "deepseek_v32",
     .hf_names = {{{"DeepseekV32ForCausalLM", "deepseek_v32"}}},
     .hf_defaults = {.vocab = 129280, .hidden = 7168, .intermediate = 18432, .layers = 61,
                     .heads = 128, .context = 163840, .bos_id = 0, .eos_id = 1, .experts = 256,
                     .experts_per_token = 8, .expert_width = 2048},
     .hf_interleaved = true, .hf_experts = kSparseExperts,
     .latent = {.kv_rank = 512, .q_rank = 1536, .nope_dim = 128, .rope_dim = 64, .value_dim = 128,
                .indexer = {.heads = 64, .head_dim = 128, .top_k = 2048}}},
    // GLM-5: the same form, whose indexer has pairs of RoPE side by side.
    {.architecture = Architecture::kGlmMoeDsa, .name = "glm_moe_dsa",
     .hf_names = {{{"GlmMoeDsaForCausalLM", "glm_moe_dsa"}}},
     .hf_defaults = {.vocab = 154880, .hidden = 6144, .intermediate = 12288, .layers = 78,
                     .heads = 64, .context = 202752, .norm_eps = 1e-5f, .bos_id = 0, .eos_id = 1,
                     .experts = 256, .experts_per_token = 8, .expert_width = 2048},
     .hf_interleaved = true, .hf_experts = kSparseExperts,
     .latent = {.kv_rank = 512, .q_rank = 2048, .nope_dim = 192, .rope_dim = 64, .value_dim = 256,
                .indexer = {.heads = 32, .head_dim = 128, .top_k = 2048, .interleaved = true}}},
};
// clang-format on

}  // namespace sluice::files
