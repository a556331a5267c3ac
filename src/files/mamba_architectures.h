// The rows of files/architectures.cc for models with layers of Mamba, Mamba-2 or lightning
// attention.
#pragma once

#include "files/architecture_parts.h"
#include "files/architectures.h"

namespace sluice::files {

inline constexpr HfTensors kMambaTensors = {.decoder = "backbone.",
                                            .embedding = "embeddings",
                                            .final_norm = "norm_f",
                                            .input_norm = "norm",
                                            .mamba = "mixer."};
// Width of a head where config.json is silent. No layer has attention, so nothing is made of it.
inline constexpr int kMambaHeadDim = 64;

inline constexpr HfTensors kBambaTensors = {.final_norm = "final_layernorm",
                                            .mlp_norm = "pre_ff_layernorm",
                                            .gate = "feed_forward.gate_proj",
                                            .up = "feed_forward.up_proj",
                                            .down = "feed_forward.down_proj"};

// clang-format off
inline constexpr ArchitectureInfo kMambaRows[] = {
    // Mamba-2 ("Transformers are SSMs"), Codestral Mamba: every layer is a short convolution and a
    // recurrence whose state decays, without a feed-forward part. Positions know no end; the length
    // that GGUF's converter writes is taken.
    {.architecture = Architecture::kMamba2, .name = "mamba2",
     .hf_names = {{{"Mamba2ForCausalLM", "mamba2"}}},
     .hf_defaults = {.vocab = 32768, .hidden = 4096, .layers = 64, .heads = 1,
                     .head_dim = kMambaHeadDim, .context = 1 << 20, .norm_eps = 1e-5f, .bos_id = 0,
                     .eos_id = 2},
     .gguf_name = "mamba2", .hf_keys = {.norm_eps = "layer_norm_epsilon"},
     .hf_tensors = kMambaTensors, .layers = LayerRule::kMamba},
    // Granite 4.0 H, with experts or without: Granite's form without RoPE, most layers of Mamba-2.
    {.architecture = Architecture::kGraniteMoeHybrid, .name = "granitemoehybrid",
     .hf_names = {{{"GraniteMoeHybridForCausalLM", "granitemoehybrid"}}},
     .hf_defaults = {.vocab = 32000, .hidden = 4096, .intermediate = 11008, .layers = 32,
                     .heads = 32, .context = 2048, .bos_id = 1, .eos_id = 2, .experts = 8,
                     .experts_per_token = 2},
     .gguf_name = "granitehybrid", .gguf_interleaved = true,
     .hf_tensors = {.gate_up = "shared_mlp.input_linear", .down = "shared_mlp.output_linear"},
     .layers = LayerRule::kMambaHybrid, .hf_biases = kAttentionBiases,
     .hf_experts = {.layers = ExpertLayers::kEvery, .renormalize = true,
                    .width_key = "intermediate_size", .block = "block_sparse_moe.",
                    .router = "router.layer", .stacked_gate_up = "input_linear",
                    .stacked_down = "output_linear", .shared = "shared_mlp."},
     .gguf_experts = true, .gate_up_stacked = true, .gguf_gate_up_apart = true,
     .hf_scales = HfScales::kGranite},
    // Bamba ("Bamba: Inference-Efficient Hybrid Mamba2 Model"): Llama's form, half of each head
    // rotated, most layers of Mamba-2.
    {.architecture = Architecture::kBamba, .name = "bamba",
     .hf_names = {{{"BambaForCausalLM", "bamba"}}},
     .hf_defaults = {.vocab = 128000, .hidden = 4096, .intermediate = 14336, .layers = 32,
                     .heads = 32, .kv_heads = 8, .context = 262144, .norm_eps = 1e-5f,
                     .rotary_portion = 0.5, .bos_id = 1, .eos_id = 2},
     .hf_tensors = kBambaTensors, .layers = LayerRule::kMambaHybrid,
     .hf_biases = kAttentionMlpBiases},
    // Falcon-H1 ("Falcon-H1: A Family of Hybrid-Head Language Models"): in every layer attention and
    // Mamba-2 read the same norm, and each part has a multiplier of its own.
    {.architecture = Architecture::kFalconH1, .name = "falcon_h1",
     .hf_names = {{{"FalconH1ForCausalLM", "falcon_h1"}}},
     .hf_defaults = {.vocab = 128000, .hidden = 4096, .intermediate = 14336, .layers = 32,
                     .heads = 32, .kv_heads = 8, .context = 8192, .norm_eps = 1e-5f, .bos_id = 1,
                     .eos_id = 2},
     .gguf_name = "falcon-h1", .hf_tensors = kBambaTensors, .layers = LayerRule::kMambaBeside,
     .hf_scales = HfScales::kFalconH1},
    // Nemotron-H and Nemotron 3 ("Nemotron-H: A Family of Accurate and Efficient Hybrid
    // Mamba-Transformer Models"): mixers and feed-forward parts, without gates, as a pattern says.
    {.architecture = Architecture::kNemotronH, .name = "nemotron_h",
     .hf_names = {{{"NemotronHForCausalLM", "nemotron_h"}}},
     .hf_defaults = {.vocab = 131072, .hidden = 4096, .intermediate = 21504, .layers = 4,
                     .heads = 32, .kv_heads = 8, .head_dim = 128, .context = 4096,
                     .norm_eps = 1e-5f, .bos_id = 1, .eos_id = 2, .experts = 8,
                     .experts_per_token = 2, .expert_width = 7688},
     .gguf_name = "nemotron_h", .gguf_experts_name = "nemotron_h_moe",
     .gguf_mlp_norm = "attn_norm",
     .hf_keys = {.norm_eps = "layer_norm_epsilon", .activation = "mlp_hidden_act"},
     .hf_tensors = {.decoder = "backbone.", .embedding = "embeddings", .final_norm = "norm_f",
                    .input_norm = "norm", .mlp_norm = "norm", .q = "mixer.q_proj",
                    .k = "mixer.k_proj", .v = "mixer.v_proj", .attention_output = "mixer.o_proj",
                    .mamba = "mixer.", .up = "mixer.up_proj", .down = "mixer.down_proj"},
     .layers = LayerRule::kMambaPattern,
     .hf_biases = kAttentionMlpBiases,
     .hf_experts = {.layers = ExpertLayers::kNamed, .renormalize = true,
                    .score = RouterScore::kSigmoid, .block = "mixer.",
                    .bias = "gate.e_score_correction_bias", .shared = "mixer.shared_experts."},
     .gguf_experts = true, .plain_mlp = true, .activation = ActivationKind::kReluSquared},
    // MiniMax-Text-01 ("MiniMax-01: Scaling Foundation Models with Lightning Attention"): most layers
    // have linear attention; blocks add to what their norm gives; experts as Mixtral's.
    {.architecture = Architecture::kMiniMax, .name = "minimax",
     .hf_names = {{{"MiniMaxForCausalLM", "minimax"}}},
     .hf_defaults = {.vocab = 32000, .hidden = 4096, .intermediate = 14336, .layers = 32,
                     .heads = 32, .kv_heads = 8, .context = 131072, .norm_eps = 1e-5f,
                     .rope_theta = 1e6f, .bos_id = 1, .eos_id = 2, .experts = 8,
                     .experts_per_token = 2},
     .layers = LayerRule::kLightning, .hf_experts = kMixtralExperts},
    // Mamba ("Mamba: Linear-Time Sequence Modeling with Selective State Spaces"): every layer is a short
    // convolution and a recurrence in which each number of the state decays by a factor of its own.
    {.architecture = Architecture::kMamba, .name = "mamba",
     .hf_names = {{{"MambaForCausalLM", "mamba"}}},
     .hf_defaults = {.vocab = 50280, .hidden = 768, .layers = 32, .heads = 1,
                     .head_dim = kMambaHeadDim, .context = 1 << 20, .norm_eps = 1e-5f,
                     .bos_id = 0, .eos_id = 0, .tied = true},
     .gguf_name = "mamba", .hf_keys = {.norm_eps = "layer_norm_epsilon"},
     .hf_tensors = kMambaTensors, .layers = LayerRule::kMamba, .first_mamba = true},
    // Falcon Mamba ("Falcon Mamba: The First Competitive Attention-free 7B Language Model"): Mamba with
    // norms on what makes the steps and meets the state. In GGUF it is a Mamba that says so.
    {.architecture = Architecture::kFalconMamba, .name = "falcon_mamba",
     .hf_names = {{{"FalconMambaForCausalLM", "falcon_mamba"}}},
     .hf_defaults = {.vocab = 50280, .hidden = 768, .layers = 32, .heads = 1,
                     .head_dim = kMambaHeadDim, .context = 1 << 20, .norm_eps = 1e-5f,
                     .bos_id = 0, .eos_id = 0, .tied = true},
     .hf_keys = {.norm_eps = "layer_norm_epsilon"},
     .hf_tensors = kMambaTensors, .layers = LayerRule::kMamba, .first_mamba = true,
     .scan_norms = ScanNorms::kPlain},
    // Jamba ("Jamba: A Hybrid Transformer-Mamba Language Model"): most layers have Mamba
    // with norms, some attention without RoPE, and every other one experts by a softmax over all.
    {.architecture = Architecture::kJamba, .name = "jamba",
     .hf_names = {{{"JambaForCausalLM", "jamba"}}},
     .hf_defaults = {.vocab = 65536, .hidden = 4096, .intermediate = 14336, .layers = 32,
                     .heads = 32, .kv_heads = 8, .context = 262144, .bos_id = 1, .eos_id = 2,
                     .experts = 16, .experts_per_token = 2},
     .gguf_name = "jamba", .hf_tensors = kBambaTensors, .layers = LayerRule::kMambaPeriodic,
     .hf_experts = {.layers = ExpertLayers::kNamed, .width_key = "intermediate_size",
                    .block = "feed_forward.", .router = "router"},
     .gguf_experts = true, .gguf_plain_weights = true, .first_mamba = true,
     .scan_norms = ScanNorms::kWeighted},
};
// clang-format on

}  // namespace sluice::files
