// What several rows of the table in architectures.cc have in common.
#pragma once

#include "files/architectures.h"

namespace sluice::files {

inline constexpr HfBias kAttentionBias = {.key = "attention_bias"}, kMlpBias = {.key = "mlp_bias"};
inline constexpr HfBiases kQkvBiases = {.qkv = {.otherwise = true}};
inline constexpr HfBiases kAttentionBiases = {.qkv = kAttentionBias, .output = kAttentionBias};
inline constexpr HfBiases kAttentionMlpBiases = {
    .qkv = kAttentionBias, .output = kAttentionBias, .mlp = kMlpBias};
// Where one key is about all of them, which have one unless it says otherwise, or have none.
constexpr HfBiases AllBiases(HfBias bias) { return {.qkv = bias, .output = bias, .mlp = bias}; }

inline constexpr HfTensors kGemmaTensors = {.mlp_norm = "pre_feedforward_layernorm"};
inline constexpr HfKeys kGemmaKeys = {.activation = "hidden_activation"};
inline constexpr HfTensors kHunyuanTensors = {.q_norm = "self_attn.query_layernorm",
                                              .k_norm = "self_attn.key_layernorm"};
// BLOOM's, too, whose blocks are not parallel.
inline constexpr HfTensors kFalconTensors = {.decoder = "transformer.",
                                             .embedding = "word_embeddings",
                                             .final_norm = "ln_f",
                                             .layers = "h.",
                                             .qkv = "self_attention.query_key_value",
                                             .attention_output = "self_attention.dense",
                                             .up = "mlp.dense_h_to_4h",
                                             .down = "mlp.dense_4h_to_h",
                                             .parallel_input_norm = "ln_attn",
                                             .parallel_mlp_norm = "ln_mlp"};
inline constexpr HfTensors kGptNeoXTensors = {.decoder = "gpt_neox.",
                                              .embedding = "embed_in",
                                              .final_norm = "final_layer_norm",
                                              .logits = "embed_out",
                                              .qkv = "attention.query_key_value",
                                              .attention_output = "attention.dense",
                                              .up = "mlp.dense_h_to_4h",
                                              .down = "mlp.dense_4h_to_h"};
inline constexpr HfTensors kMptTensors = {.decoder = "transformer.",
                                          .embedding = "wte",
                                          .final_norm = "norm_f",
                                          .layers = "blocks.",
                                          .input_norm = "norm_1",
                                          .mlp_norm = "norm_2",
                                          .qkv = "attn.Wqkv",
                                          .attention_output = "attn.out_proj",
                                          .up = "ffn.up_proj",
                                          .down = "ffn.down_proj"};
inline constexpr HfKeys kMptKeys = {.norm_eps = "layer_norm_epsilon",
                                    .activation = "",
                                    .hidden = "d_model",
                                    .layers = "n_layers",
                                    .heads = "n_heads",
                                    .context = "max_seq_len"};
inline constexpr HfKeys kLayerNormKeys = {.norm_eps = "layer_norm_eps"};

inline constexpr HfExperts kQwenExperts = {.layers = ExpertLayers::kSparse};
inline constexpr HfExperts kQwenSharedExperts = {.layers = ExpertLayers::kSparse,
                                                 .shared = "mlp.shared_expert.",
                                                 .shared_gate = "mlp.shared_expert_gate"};
inline constexpr HfExperts kQwenNextExperts = {.layers = ExpertLayers::kSparse,
                                               .renormalize = true,
                                               .shared = "mlp.shared_expert.",
                                               .shared_gate = "mlp.shared_expert_gate"};
inline constexpr LatentConfig kDeepseekLatent = {
    .kv_rank = 512, .q_rank = 1536, .nope_dim = 128, .rope_dim = 64, .value_dim = 128};
inline constexpr HfExperts kGlmExperts = {.layers = ExpertLayers::kBehindDense,
                                          .renormalize = true,
                                          .score = RouterScore::kSigmoid,
                                          .bias = "gate.e_score_correction_bias",
                                          .shared = "mlp.shared_experts."};
inline constexpr HfExperts kMixtralExperts = {.layers = ExpertLayers::kEvery,
                                              .renormalize = true,
                                              .width_key = "intermediate_size",
                                              .block = "block_sparse_moe.",
                                              .gate = "w1",
                                              .up = "w3",
                                              .down = "w2"};

}  // namespace sluice::files
