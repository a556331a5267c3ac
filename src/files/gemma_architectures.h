// The rows of files/architectures.cc for Gemma 4 and 3n.
#pragma once

#include "files/architecture_parts.h"

namespace sluice::files {

// clang-format off
inline constexpr ArchitectureInfo kGemmaRows[] = {
    // Gemma 4, text: Gemma 3's form, where the layers that see everything have heads of their own, V
    // has a norm, too, and what a layer gives is multiplied by a weight. hf_gemma4.cc and
    // gguf_gemma4.cc read the rest.
    {.architecture = Architecture::kGemma4, .name = "gemma4",
     .hf_names = {{{"Gemma4ForCausalLM", "gemma4_text"},
                   {"Gemma4ForConditionalGeneration", "gemma4"}}},
     .hf_defaults = {.vocab = 262144, .hidden = 2304, .intermediate = 9216, .layers = 30,
                     .heads = 8, .kv_heads = 4, .head_dim = 256, .context = 131072,
                     .rope_theta = 1e6f, .window = 512, .bos_id = 2, .eos_id = 1, .tied = true},
     .gguf_name = "gemma4", .hf_keys = kGemmaKeys, .hf_tensors = kGemmaTensors,
     .norm_places = NormPlaces::kAround,
     .layers = LayerRule::kPeriodicWindow, .window_period = 6, .local_rope = true,
     .hf_biases = kAttentionBiases,
     .hf_experts = {.block = "", .router = "router.proj",
                    .stacked_gate_up = "experts.gate_up_proj",
                    .stacked_down = "experts.down_proj", .stacked_bare = true},
     .gguf_experts = true, .qk_norm = QkNormKind::kHead, .v_norm = true,
     .layer_scales = true, .activation = ActivationKind::kGeluTanh,
     .hf_scales = HfScales::kGemma4, .in_multimodal = true},
    // Gemma 3n, text: several residual streams (AltUp), a second branch beside attention (Laurel), inputs
    // of each layer, last layers without KV of their own, and gates that are sparse in the first
    // layers. hf_gemma3n.cc and gguf_gemma3n.cc read what it has alone.
    {.architecture = Architecture::kGemma3n, .name = "gemma3n",
     .hf_names = {{{"Gemma3nForCausalLM", "gemma3n_text"},
                   {"Gemma3nForConditionalGeneration", "gemma3n"}}},
     .hf_defaults = {.vocab = 262400, .hidden = 2048, .intermediate = 16384, .layers = 35,
                     .heads = 8, .kv_heads = 2, .head_dim = 256, .context = 32768,
                     .rope_theta = 1e6f, .window = 512, .bos_id = 2, .eos_id = 1, .tied = true},
     .gguf_name = "gemma3n", .hf_keys = kGemmaKeys, .hf_tensors = kGemmaTensors,
     .norm_places = NormPlaces::kAround,
     .layers = LayerRule::kPeriodicWindow, .window_period = 5, .local_rope = true,
     .hf_biases = kAttentionBiases, .qk_norm = QkNormKind::kHead, .v_norm = true,
     .activation = ActivationKind::kGeluTanh,
     .hf_scales = HfScales::kGemma4, .in_multimodal = true},
};
// clang-format on

}  // namespace sluice::files
