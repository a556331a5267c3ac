// The row of files/architectures.cc for Gemma 4.
#pragma once

#include "files/architecture_parts.h"

namespace sluice::files {

// clang-format off
inline constexpr ArchitectureInfo kGemma4Rows[] = {
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
};
// clang-format on

}  // namespace sluice::files
