// The rows of files/architectures.cc for models with short convolutions.
#pragma once

#include "files/architectures.h"

namespace sluice::files {

inline constexpr HfTensors kLfm2Tensors = {.final_norm = "embedding_norm",
                                           .input_norm = "operator_norm",
                                           .mlp_norm = "ffn_norm",
                                           .q_norm = "self_attn.q_layernorm",
                                           .k_norm = "self_attn.k_layernorm",
                                           .attention_output = "self_attn.out_proj",
                                           .gate = "feed_forward.w1",
                                           .up = "feed_forward.w3",
                                           .down = "feed_forward.w2"};
inline constexpr HfKeys kLfm2Keys = {
    .norm_eps = "norm_eps", .activation = "", .intermediate = "block_ff_dim"};

// clang-format off
inline constexpr ArchitectureInfo kShortConvRows[] = {
    // LFM2 350M to 2.6B ("LFM2 Technical Report"): short convolutions between gates, in some layers
    // Qwen 3's attention instead.
    {.architecture = Architecture::kLfm2, .name = "lfm2",
     .hf_names = {{{"Lfm2ForCausalLM", "lfm2"}}},
     .hf_defaults = {.vocab = 65536, .hidden = 2560, .intermediate = 12288, .layers = 32,
                     .heads = 32, .kv_heads = 8, .context = 128000, .norm_eps = 1e-5f,
                     .rope_theta = 1e6f, .bos_id = 1, .eos_id = 2, .tied = true},
     .gguf_name = "lfm2", .gguf_final_norm = "token_embd_norm", .hf_keys = kLfm2Keys,
     .hf_tensors = kLfm2Tensors, .layers = LayerRule::kShortConv, .qk_norm = QkNormKind::kHead,
     .feed_forward_shrinks = true},
    // LFM2 8B-A1B ("LFM2 Technical Report"): that with experts by the sigmoid with a bias, behind some
    // dense layers.
    {.architecture = Architecture::kLfm2Moe, .name = "lfm2_moe",
     .hf_names = {{{"Lfm2MoeForCausalLM", "lfm2_moe"}}},
     .hf_defaults = {.vocab = 65536, .hidden = 2048, .intermediate = 7168, .layers = 32,
                     .heads = 32, .kv_heads = 8, .context = 128000, .norm_eps = 1e-5f,
                     .rope_theta = 1e6f, .bos_id = 1, .eos_id = 2, .tied = true, .experts = 32,
                     .experts_per_token = 4, .expert_width = 1792},
     .gguf_name = "lfm2moe", .gguf_final_norm = "token_embd_norm", .hf_keys = kLfm2Keys,
     .hf_tensors = kLfm2Tensors, .layers = LayerRule::kShortConv,
     .hf_experts = {.layers = ExpertLayers::kBehindDense, .renormalize = true,
                    .score = RouterScore::kSigmoid, .block = "feed_forward.",
                    .bias = "expert_bias", .gate = "w1", .up = "w3", .down = "w2",
                    .dense_layers = 2, .dense_layers_key = "num_dense_layers",
                    .bias_switch = "use_expert_bias"},
     .gguf_experts = true, .qk_norm = QkNormKind::kHead},
};
// clang-format on

}  // namespace sluice::files
