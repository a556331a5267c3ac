#include "files/architectures.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "files/architecture_parts.h"
#include "files/early_architectures.h"
#include "files/encoder_architectures.h"
#include "files/gemma_architectures.h"
#include "files/mamba_architectures.h"
#include "files/short_conv_architectures.h"
#include "files/sparse_architectures.h"

namespace sluice::files {
namespace {

// clang-format would put each row on as few lines as it can.
// clang-format off
constexpr ArchitectureInfo kDecoderRows[] = {
    // Llama 2 and 3, SmolLM 1 and 2, and others of that form ("Llama 2: Open Foundation and
    // Fine-Tuned Chat Models"): pre-norm, RoPE, grouped queries, SiLU.
    {.architecture = Architecture::kLlama, .name = "llama",
     .hf_names = {{{"LlamaForCausalLM", "llama"}}},
     .hf_defaults = {.vocab = 32000, .hidden = 4096, .intermediate = 11008, .layers = 32,
                     .heads = 32, .context = 2048, .bos_id = 1, .eos_id = 2},
     .gguf_name = "llama", .gguf_interleaved = true, .hf_biases = kAttentionMlpBiases,
     .gguf_experts = true},
    // Mistral 7B, Nemo and Ministral ("Mistral 7B"): Llama's form; older ones see a window.
    {.architecture = Architecture::kMistral, .name = "mistral",
     .hf_names = {{{"MistralForCausalLM", "mistral"}}},
     .hf_defaults = {.vocab = 32000, .hidden = 4096, .intermediate = 14336, .layers = 32,
                     .heads = 32, .kv_heads = 8, .context = 131072, .window = 4096, .bos_id = 1,
                     .eos_id = 2},
     .gguf_name = "mistral3", .gguf_interleaved = true, .layers = LayerRule::kWindow},
    // Qwen 2 and 2.5 ("Qwen2 Technical Report"): Llama's form with biases on Q, K and V.
    {.architecture = Architecture::kQwen2, .name = "qwen2",
     .hf_names = {{{"Qwen2ForCausalLM", "qwen2"}}},
     .hf_defaults = {.vocab = 151936, .hidden = 4096, .intermediate = 22016, .layers = 32,
                     .heads = 32, .kv_heads = 32, .context = 32768, .window = 4096},
     .gguf_name = "qwen2", .layers = LayerRule::kUpperWindow, .hf_biases = kQkvBiases},
    // Qwen 3, dense ("Qwen3 Technical Report"): Llama's form with RMSNorm on each head of Q and K.
    {.architecture = Architecture::kQwen3, .name = "qwen3",
     .hf_names = {{{"Qwen3ForCausalLM", "qwen3"}}},
     .hf_defaults = {.vocab = 151936, .hidden = 4096, .intermediate = 22016, .layers = 32,
                     .heads = 32, .kv_heads = 32, .head_dim = 128, .context = 32768,
                     .window = 4096},
     .gguf_name = "qwen3", .layers = LayerRule::kUpperWindow, .hf_biases = kAttentionBiases,
     .qk_norm = QkNormKind::kHead},
    // Gemma 2 ("Gemma 2: Improving Open Language Models at a Practical Size"): norms around each
    // block, every other layer sees a window, soft caps on scores and logits.
    {.architecture = Architecture::kGemma2, .name = "gemma2",
     .hf_names = {{{"Gemma2ForCausalLM", "gemma2"}}},
     .hf_defaults = {.vocab = 256000, .hidden = 2304, .intermediate = 9216, .layers = 26,
                     .heads = 8, .kv_heads = 4, .head_dim = 256, .context = 8192, .window = 4096,
                     .bos_id = 2, .eos_id = 1, .tied = true},
     .gguf_name = "gemma2", .hf_keys = kGemmaKeys, .hf_tensors = kGemmaTensors,
     .norm_places = NormPlaces::kAround,
     .layers = LayerRule::kPeriodicWindow, .window_period = 2, .hf_biases = kAttentionBiases,
     .hf_norms_add_one = true, .activation = ActivationKind::kGeluTanh,
     .hf_scales = HfScales::kGemma},
    // Gemma 3, text ("Gemma 3 Technical Report"): Gemma 2's form with Q/K norms instead of soft caps,
    // and a RoPE of their own for the window layers.
    {.architecture = Architecture::kGemma3, .name = "gemma3",
     .hf_names = {{{"Gemma3ForCausalLM", "gemma3_text"},
                   {"Gemma3ForConditionalGeneration", "gemma3"}}},
     .hf_defaults = {.vocab = 262208, .hidden = 2304, .intermediate = 9216, .layers = 26,
                     .heads = 8, .kv_heads = 4, .head_dim = 256, .context = 131072,
                     .rope_theta = 1e6f, .window = 4096, .bos_id = 2, .eos_id = 1, .tied = true},
     .gguf_name = "gemma3", .hf_keys = kGemmaKeys, .hf_tensors = kGemmaTensors,
     .norm_places = NormPlaces::kAround,
     .layers = LayerRule::kPeriodicWindow, .window_period = 6, .local_rope = true,
     .hf_biases = kAttentionBiases, .qk_norm = QkNormKind::kHead, .hf_norms_add_one = true,
     .activation = ActivationKind::kGeluTanh, .hf_scales = HfScales::kGemma,
     .in_multimodal = true},
    // Phi-3 and Phi-4-mini ("Phi-3 Technical Report"): Llama's form with fused matrices in the files,
    // LongRoPE, and partial rotation in some sizes.
    {.architecture = Architecture::kPhi3, .name = "phi3",
     .hf_names = {{{"Phi3ForCausalLM", "phi3"}}},
     .hf_defaults = {.vocab = 32064, .hidden = 3072, .intermediate = 8192, .layers = 32,
                     .heads = 32, .context = 4096, .norm_eps = 1e-5f, .bos_id = 1,
                     .eos_id = 32000},
     .gguf_name = "phi3", .layers = LayerRule::kWindow, .qkv = QkvLayout::kStacked,
     .gguf_qkv = QkvLayout::kStacked, .gate_up_stacked = true},
    // SmolLM3: Llama's form without RoPE in every fourth layer.
    {.architecture = Architecture::kSmolLM3, .name = "smollm3",
     .hf_names = {{{"SmolLM3ForCausalLM", "smollm3"}}},
     .hf_defaults = {.vocab = 128256, .hidden = 2048, .intermediate = 11008, .layers = 36,
                     .heads = 16, .kv_heads = 4, .context = 32768, .rope_theta = 2e6f,
                     .bos_id = 128000, .eos_id = 128001, .tied = true},
     .gguf_name = "smollm3", .gguf_interleaved = true, .layers = LayerRule::kPeriodicRope,
     .hf_biases = kAttentionMlpBiases},
    // Qwen3-Next, with experts or without ("Gated Delta Networks: Improving Mamba2 with Delta Rule"): in three
    // layers of four a short convolution and a gated delta rule, in the fourth attention with a gate.
    {.architecture = Architecture::kQwen3Next, .name = "qwen3_next",
     .hf_names = {{{"Qwen3NextForCausalLM", "qwen3_next"}}},
     .hf_defaults = {.vocab = 151936, .hidden = 2048, .intermediate = 5632, .layers = 48,
                     .heads = 16, .kv_heads = 2, .head_dim = 256, .context = 32768,
                     .rotary_portion = 0.25, .experts = 512, .experts_per_token = 10,
                     .expert_width = 512},
     .layers = LayerRule::kPeriodicLinear,
     .hf_experts = kQwenNextExperts, .qk_norm = QkNormKind::kHead, .hf_norms_add_one = true,
     .attention_gate = true},
    // StableLM 3B and 2 ("Stable LM 2 1.6B Technical Report"): Llama's form with LayerNorms and partial
    // rotation; with "use_parallel_residual" one of them is read by attention and MLP alike.
    {.architecture = Architecture::kStableLm, .name = "stablelm",
     .hf_names = {{{"StableLmForCausalLM", "stablelm"}}},
     .hf_defaults = {.vocab = 50304, .hidden = 2560, .intermediate = 6912, .layers = 32,
                     .heads = 32, .kv_heads = 32, .context = 4096, .norm_eps = 1e-5f,
                     .rotary_portion = 0.25, .bos_id = 0, .eos_id = 0},
     .hf_keys = kLayerNormKeys, .norm = ModelNorm::kLayer,
     .hf_biases = {.qkv = {.key = "use_qkv_bias"}}, .hf_parallel_key = "use_parallel_residual"},
    // MiMo 7B ("MiMo: Unlocking the Reasoning Potential of Language Model"): Qwen 2's form, with heads
    // of a layer each that guess further tokens.
    {.architecture = Architecture::kMiMo, .name = "mimo",
     .hf_names = {{{"MiMoForCausalLM", "mimo"}}},
     .hf_defaults = {.vocab = 151936, .hidden = 4096, .intermediate = 22016, .layers = 32,
                     .heads = 32, .kv_heads = 32, .context = 32768, .window = 4096},
     .layers = LayerRule::kUpperWindow, .hf_biases = kQkvBiases, .mtp_heads = true},
    // Qwen 3 with experts ("Qwen3 Technical Report"): Qwen 3's attention, and in most layers experts
    // of which a softmax over all takes some.
    {.architecture = Architecture::kQwen3Moe, .name = "qwen3_moe",
     .hf_names = {{{"Qwen3MoeForCausalLM", "qwen3_moe"}}},
     .hf_defaults = {.vocab = 151936, .hidden = 2048, .intermediate = 6144, .layers = 24,
                     .heads = 32, .kv_heads = 4, .context = 32768, .window = 4096, .experts = 128,
                     .experts_per_token = 8, .expert_width = 768},
     .gguf_name = "qwen3moe", .layers = LayerRule::kSwitchedWindow,
     .hf_biases = kAttentionBiases, .hf_experts = kQwenExperts, .gguf_experts = true,
     .qk_norm = QkNormKind::kHead},
    // Mixtral 8x7B and 8x22B ("Mixtral of Experts"): Mistral's form with experts in every layer. In
    // GGUF it is a Llama that has experts.
    {.architecture = Architecture::kMixtral, .name = "mixtral",
     .hf_names = {{{"MixtralForCausalLM", "mixtral"}}},
     .hf_defaults = {.vocab = 32000, .hidden = 4096, .intermediate = 14336, .layers = 32,
                     .heads = 32, .kv_heads = 8, .context = 131072, .norm_eps = 1e-5f,
                     .rope_theta = 1e6f, .bos_id = 1, .eos_id = 2, .experts = 8,
                     .experts_per_token = 2},
     .layers = LayerRule::kWindow, .hf_experts = kMixtralExperts},
    // OLMo 2 ("2 OLMo 2 Furious"): norms on what blocks give alone, RMSNorm over all heads of Q and K.
    {.architecture = Architecture::kOlmo2, .name = "olmo2",
     .hf_names = {{{"Olmo2ForCausalLM", "olmo2"}}},
     .hf_defaults = {.vocab = 50304, .hidden = 4096, .intermediate = 11008, .layers = 32,
                     .heads = 32, .context = 2048, .norm_eps = 1e-5f, .eos_id = 50279},
     .gguf_name = "olmo2", .norm_places = NormPlaces::kAfter, .hf_biases = kAttentionBiases,
     .qk_norm = QkNormKind::kWidth},
    // Granite 3 and 4 without experts ("Granite 3.0 Language Models"): Llama's form with factors on the
    // embedding, the scores, what blocks add, and the logits.
    {.architecture = Architecture::kGranite, .name = "granite",
     .hf_names = {{{"GraniteForCausalLM", "granite"}}},
     .hf_defaults = {.vocab = 32000, .hidden = 4096, .intermediate = 11008, .layers = 32,
                     .heads = 32, .context = 2048, .bos_id = 1, .eos_id = 2},
     .gguf_name = "granite", .gguf_interleaved = true, .hf_biases = kAttentionMlpBiases,
     .hf_scales = HfScales::kGranite},
    // Command R and Aya 23: one LayerNorm that attention and MLP read side by side, pairs of RoPE side
    // by side, scaled logits.
    {.architecture = Architecture::kCohere, .name = "cohere",
     .hf_names = {{{"CohereForCausalLM", "cohere"}}},
     .hf_defaults = {.vocab = 256000, .hidden = 8192, .intermediate = 22528, .layers = 40,
                     .heads = 64, .context = 8192, .norm_eps = 1e-5f, .rope_theta = 500000.0f,
                     .bos_id = 5, .eos_id = 255001, .tied = true},
     .gguf_name = "command-r", .gguf_interleaved = true, .hf_interleaved = true,
     .hf_keys = kLayerNormKeys, .norm = ModelNorm::kLayerNoBias, .hf_biases = kAttentionBiases,
     .parallel_residual = true, .hf_scales = HfScales::kCohere},
    // Command R7B and A ("Command A: An Enterprise-Ready Large Language Model"): Command R's form; three
    // layers of four see a window, and they alone have RoPE.
    {.architecture = Architecture::kCohere2, .name = "cohere2",
     .hf_names = {{{"Cohere2ForCausalLM", "cohere2"}}},
     .hf_defaults = {.vocab = 256000, .hidden = 8192, .intermediate = 22528, .layers = 40,
                     .heads = 64, .context = 8192, .norm_eps = 1e-5f, .window = 4096, .bos_id = 5,
                     .eos_id = 255001, .tied = true},
     .gguf_name = "cohere2", .gguf_interleaved = true, .hf_interleaved = true,
     .hf_keys = kLayerNormKeys, .norm = ModelNorm::kLayerNoBias,
     .layers = LayerRule::kPeriodicWindow, .window_period = 4, .rope_in_windows_alone = true,
     .hf_biases = kAttentionBiases, .parallel_residual = true, .hf_scales = HfScales::kCohere},
    // GLM-4 9B of 2024 ("ChatGLM: A Family of Large Language Models"): Llama's form with biases on Q, K
    // and V and half of each head rotated, pairs side by side.
    {.architecture = Architecture::kGlm, .name = "glm",
     .hf_names = {{{"GlmForCausalLM", "glm"}}},
     .hf_defaults = {.vocab = 151552, .hidden = 4096, .intermediate = 13696, .layers = 40,
                     .heads = 32, .kv_heads = 2, .head_dim = 128, .context = 131072,
                     .norm_eps = 1.5625e-7f, .rotary_portion = 0.5},
     .hf_interleaved = true, .hf_biases = {.qkv = {.key = "attention_bias", .otherwise = true}},
     .gate_up_stacked = true},
    // GLM-4 0414: GLM's form with norms around each block.
    {.architecture = Architecture::kGlm4, .name = "glm4",
     .hf_names = {{{"Glm4ForCausalLM", "glm4"}}},
     .hf_defaults = {.vocab = 151552, .hidden = 4096, .intermediate = 13696, .layers = 40,
                     .heads = 32, .kv_heads = 2, .head_dim = 128, .context = 131072,
                     .norm_eps = 1.5625e-7f, .rotary_portion = 0.5},
     .gguf_name = "glm4", .gguf_interleaved = true, .hf_interleaved = true,
     .hf_tensors = {.attention_post_norm = "post_self_attn_layernorm",
                    .mlp_post_norm = "post_mlp_layernorm"},
     .norm_places = NormPlaces::kAround,
     .hf_biases = {.qkv = {.key = "attention_bias", .otherwise = true}}, .gate_up_stacked = true},
    // Seed-OSS: Llama's form with biases on Q, K and V.
    {.architecture = Architecture::kSeedOss, .name = "seed_oss",
     .hf_names = {{{"SeedOssForCausalLM", "seed_oss"}}},
     .hf_defaults = {.vocab = 155136, .hidden = 4096, .intermediate = 27648, .layers = 64,
                     .heads = 80, .kv_heads = 8, .head_dim = 128, .context = 524288, .bos_id = 0,
                     .eos_id = 2},
     .gguf_name = "seed_oss", .gguf_mlp_norm = "post_attention_norm",
     .hf_biases = {.qkv = {.key = "attention_bias", .otherwise = true},
                   .output = {.key = "attention_out_bias"}, .mlp = kMlpBias}},
    // EXAONE 4 ("EXAONE 4.0: Unified Large Language Models"): norms on what blocks give alone; where
    // three layers of four see a window, they alone have RoPE.
    {.architecture = Architecture::kExaone4, .name = "exaone4",
     .hf_names = {{{"Exaone4ForCausalLM", "exaone4"}}},
     .hf_defaults = {.vocab = 102400, .hidden = 4096, .intermediate = 16384, .layers = 32,
                     .heads = 32, .kv_heads = 32, .context = 2048, .norm_eps = 1e-5f,
                     .window = 4096, .bos_id = 0, .eos_id = 2},
     .gguf_name = "exaone4", .norm_places = NormPlaces::kAfter,
     .layers = LayerRule::kPeriodicWindow, .window_period = 4, .rope_in_windows_alone = true,
     .qk_norm = QkNormKind::kHead},
    // ERNIE 4.5 without experts ("ERNIE 4.5 Technical Report"): Llama's form, pairs of RoPE side by side.
    {.architecture = Architecture::kErnie45, .name = "ernie4_5",
     .hf_names = {{{"Ernie4_5ForCausalLM", "ernie4_5"}}},
     .hf_defaults = {.vocab = 103424, .hidden = 1024, .intermediate = 3072, .layers = 18,
                     .heads = 16, .kv_heads = 2, .head_dim = 128, .context = 131072,
                     .norm_eps = 1e-5f, .bos_id = 1, .eos_id = 2, .tied = true},
     .gguf_name = "ernie4_5", .gguf_interleaved = true, .hf_interleaved = true,
     .hf_biases = AllBiases({.key = "use_bias"})},
    // Nemotron 3 and Minitron ("Nemotron-4 15B Technical Report"): LayerNorms, an MLP without a gate
    // whose activation is the square of ReLU, half of each head rotated.
    {.architecture = Architecture::kNemotron, .name = "nemotron",
     .hf_names = {{{"NemotronForCausalLM", "nemotron"}}},
     .hf_defaults = {.vocab = 256000, .hidden = 6144, .intermediate = 24576, .layers = 32,
                     .heads = 48, .context = 4096, .norm_eps = 1e-5f, .rotary_portion = 0.5,
                     .bos_id = 2, .eos_id = 3},
     .gguf_name = "nemotron", .hf_keys = {.norm_eps = "norm_eps"}, .norm = ModelNorm::kLayer,
     .hf_biases = kAttentionMlpBiases, .hf_norms_add_one = true, .plain_mlp = true,
     .activation = ActivationKind::kReluSquared},
    // Phi-1, Phi-1.5 and Phi-2 ("Textbooks Are All You Need II"): one LayerNorm that attention and an MLP
    // without a gate read side by side, biases on every product, the logits' too.
    {.architecture = Architecture::kPhi2, .name = "phi2",
     .hf_names = {{{"PhiForCausalLM", "phi"}}},
     .hf_defaults = {.vocab = 51200, .hidden = 2048, .intermediate = 8192, .layers = 24,
                     .heads = 32, .context = 2048, .norm_eps = 1e-5f, .rotary_portion = 0.5,
                     .bos_id = 1, .eos_id = 2},
     .gguf_name = "phi2", .hf_keys = kLayerNormKeys,
     .hf_tensors = {.final_norm = "final_layernorm", .attention_output = "self_attn.dense",
                    .up = "mlp.fc1", .down = "mlp.fc2"},
     .norm = ModelNorm::kLayer,
     .hf_biases = {.qkv = {.otherwise = true}, .output = {.otherwise = true},
                   .mlp = {.otherwise = true}, .logits = true},
     .plain_mlp = true, .parallel_residual = true, .activation = ActivationKind::kGeluTanh},
    // StarCoder 2 ("StarCoder 2 and The Stack v2"): LayerNorms, an MLP without a gate, biases on every
    // product of a layer.
    {.architecture = Architecture::kStarCoder2, .name = "starcoder2",
     .hf_names = {{{"Starcoder2ForCausalLM", "starcoder2"}}},
     .hf_defaults = {.vocab = 49152, .hidden = 3072, .intermediate = 12288, .layers = 30,
                     .heads = 24, .kv_heads = 2, .context = 4096, .norm_eps = 1e-5f,
                     .bos_id = 50256, .eos_id = 50256, .tied = true},
     .gguf_name = "starcoder2", .hf_keys = {.norm_eps = "norm_epsilon"},
     .hf_tensors = {.up = "mlp.c_fc", .down = "mlp.c_proj"}, .norm = ModelNorm::kLayer,
     .layers = LayerRule::kWindow,
     .hf_biases = AllBiases({.key = "use_bias", .otherwise = true}), .plain_mlp = true,
     .activation = ActivationKind::kGeluTanh},
    // Qwen 1.5 and 2 with experts ("Qwen2 Technical Report"): Qwen 2's form; beside the experts of the
    // router one that every token takes, times the sigmoid of a gate.
    {.architecture = Architecture::kQwen2Moe, .name = "qwen2_moe",
     .hf_names = {{{"Qwen2MoeForCausalLM", "qwen2_moe"}}},
     .hf_defaults = {.vocab = 151936, .hidden = 2048, .intermediate = 5632, .layers = 24,
                     .heads = 16, .kv_heads = 16, .context = 32768, .window = 4096, .experts = 60,
                     .experts_per_token = 4, .expert_width = 1408},
     .layers = LayerRule::kSwitchedWindow,
     .hf_biases = {.qkv = {.key = "qkv_bias", .otherwise = true}},
     .hf_experts = kQwenSharedExperts},
    // OLMoE ("OLMoE: Open Mixture-of-Experts Language Models"): Llama's form with RMSNorm over all heads
    // of Q and K, and experts in every layer.
    {.architecture = Architecture::kOlmoe, .name = "olmoe",
     .hf_names = {{{"OlmoeForCausalLM", "olmoe"}}},
     .hf_defaults = {.vocab = 50304, .hidden = 2048, .intermediate = 2048, .layers = 16,
                     .heads = 16, .context = 4096, .norm_eps = 1e-5f, .eos_id = 50279,
                     .experts = 64, .experts_per_token = 8},
     .hf_biases = kAttentionBiases,
     .hf_experts = {.layers = ExpertLayers::kEvery, .width_key = "intermediate_size"},
     .qk_norm = QkNormKind::kWidth},
    // Granite 3 and 4 with experts ("Granite 3.0 Language Models"): Granite's form; the experts of a
    // layer lie in one tensor, and there may be one that every token takes.
    {.architecture = Architecture::kGraniteMoe, .name = "granitemoe",
     .hf_names = {{{"GraniteMoeForCausalLM", "granitemoe"},
                   {"GraniteMoeSharedForCausalLM", "granitemoeshared"}}},
     .hf_defaults = {.vocab = 32000, .hidden = 4096, .intermediate = 11008, .layers = 32,
                     .heads = 32, .context = 2048, .bos_id = 1, .eos_id = 2, .experts = 8,
                     .experts_per_token = 2},
     .hf_biases = kAttentionBiases,
     .hf_experts = {.layers = ExpertLayers::kEvery, .renormalize = true,
                    .width_key = "intermediate_size", .block = "block_sparse_moe.",
                    .router = "router.layer", .stacked_gate_up = "input_linear",
                    .stacked_down = "output_linear", .shared = "shared_mlp."},
     .hf_scales = HfScales::kGranite},
    // GLM-4.5 and 4.6 ("GLM-4.5: Agentic, Reasoning, and Coding Foundation Models"): behind some dense
    // layers experts by the sigmoid with a bias, and one that every token takes.
    {.architecture = Architecture::kGlm4Moe, .name = "glm4_moe",
     .hf_names = {{{"Glm4MoeForCausalLM", "glm4_moe"}}},
     .hf_defaults = {.vocab = 151552, .hidden = 4096, .intermediate = 10944, .layers = 46,
                     .heads = 96, .kv_heads = 8, .context = 131072, .norm_eps = 1e-5f,
                     .rotary_portion = 0.5, .experts = 128, .experts_per_token = 8,
                     .expert_width = 1408},
     .hf_biases = {.qkv = kAttentionBias},
     .hf_experts = kGlmExperts,
     .qk_norm = QkNormKind::kHead, .hf_qk_norm_key = "use_qk_norm"},
    // MiniMax-M2: RMSNorm over all heads of Q and K, partial rotation, in every layer experts by the
    // sigmoid with a bias.
    {.architecture = Architecture::kMiniMaxM2, .name = "minimax_m2",
     .hf_names = {{{"MiniMaxM2ForCausalLM", "minimax_m2"}}},
     .hf_defaults = {.vocab = 200064, .hidden = 3072, .intermediate = 1536, .layers = 62,
                     .heads = 48, .kv_heads = 8, .head_dim = 128, .context = 196608,
                     .rope_theta = 5e6f, .bos_id = 200034, .eos_id = 200020, .experts = 256,
                     .experts_per_token = 8},
     .hf_experts = {.layers = ExpertLayers::kEvery, .renormalize = true,
                    .score = RouterScore::kSigmoid, .width_key = "intermediate_size",
                    .block = "block_sparse_moe.", .bias = "e_score_correction_bias", .gate = "w1",
                    .up = "w3", .down = "w2"},
     .qk_norm = QkNormKind::kWidth},
    // gpt-oss ("gpt-oss-120b & gpt-oss-20b Model Card"): every other layer sees a window, a sink in each
    // head's softmax, experts with biases and a clamped SwiGLU, which are published in MXFP4.
    {.architecture = Architecture::kGptOss, .name = "gpt_oss",
     .hf_names = {{{"GptOssForCausalLM", "gpt_oss"}}},
     .hf_defaults = {.vocab = 201088, .hidden = 2880, .intermediate = 2880, .layers = 36,
                     .heads = 64, .kv_heads = 8, .head_dim = 64, .context = 131072,
                     .norm_eps = 1e-5f, .rope_theta = 150000.0f, .window = 128, .experts = 128,
                     .experts_per_token = 4},
     .gguf_name = "gpt-oss", .gguf_mlp_norm = "post_attention_norm",
     .hf_keys = {.activation = ""}, .layers = LayerRule::kPeriodicWindow, .window_period = 2,
     .hf_biases = {.qkv = {.key = "attention_bias", .otherwise = true},
                   .output = {.key = "attention_bias", .otherwise = true}},
     .hf_experts = {.layers = ExpertLayers::kEvery, .renormalize = true,
                    .width_key = "intermediate_size", .router = "router",
                    .stacked_gate_up = "experts.gate_up_proj",
                    .stacked_down = "experts.down_proj", .transposed = true, .interleaved = true,
                    .product_biases = true},
     .gguf_experts = true, .attention_sinks = true,
     .activation = ActivationKind::kClampedSwiglu},
    // DeepSeek V2 and V2-Lite ("DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts
    // Language Model"): latent attention, behind a dense layer experts by a softmax, of some groups.
    {.architecture = Architecture::kDeepseekV2, .name = "deepseek_v2",
     .hf_names = {{{"DeepseekV2ForCausalLM", "deepseek_v2"}}},
     .hf_defaults = {.vocab = 102400, .hidden = 4096, .intermediate = 11008, .layers = 32,
                     .heads = 32, .context = 2048, .bos_id = 1, .eos_id = 2, .experts = 64,
                     .experts_per_token = 6, .expert_width = 1407},
     .hf_interleaved = true,
     .hf_experts = {.layers = ExpertLayers::kBehindDense, .dense_layers = 0,
                    .shared = "mlp.shared_experts."},
     .latent = kDeepseekLatent},
    // DeepSeek V3 and R1 ("DeepSeek-V3 Technical Report"), Moonlight: V2's form with experts by the
    // sigmoid with a bias. Layers that guess further tokens are left out.
    {.architecture = Architecture::kDeepseekV3, .name = "deepseek_v3",
     .hf_names = {{{"DeepseekV3ForCausalLM", "deepseek_v3"}}},
     .hf_defaults = {.vocab = 129280, .hidden = 7168, .intermediate = 18432, .layers = 61,
                     .heads = 128, .context = 4096, .bos_id = 0, .eos_id = 1, .experts = 256,
                     .experts_per_token = 8, .expert_width = 2048},
     .hf_interleaved = true,
     .hf_experts = {.layers = ExpertLayers::kBehindDense, .renormalize = true,
                    .score = RouterScore::kSigmoid, .bias = "gate.e_score_correction_bias",
                    .dense_layers = 3, .shared = "mlp.shared_experts."},
     .latent = kDeepseekLatent},
    // GLM-4.7-Flash: GLM-4.5's experts behind DeepSeek's latent attention.
    {.architecture = Architecture::kGlm4MoeLite, .name = "glm4_moe_lite",
     .hf_names = {{{"Glm4MoeLiteForCausalLM", "glm4_moe_lite"}}},
     .hf_defaults = {.vocab = 154880, .hidden = 2048, .intermediate = 10240, .layers = 47,
                     .heads = 20, .context = 202752, .norm_eps = 1e-5f, .bos_id = 0, .eos_id = 1,
                     .experts = 64, .experts_per_token = 4, .expert_width = 1536},
     .hf_interleaved = true, .hf_experts = kGlmExperts,
     .latent = {.kv_rank = 512, .q_rank = 768, .nope_dim = 192, .rope_dim = 64,
                .value_dim = 256}},
    // Youtu-LLM ("Youtu-LLM: Unlocking the Native Agentic Potential for Lightweight Large Language
    // Models"): latent attention without experts.
    {.architecture = Architecture::kYoutu, .name = "youtu",
     .hf_names = {{{"YoutuForCausalLM", "youtu"}}},
     .hf_defaults = {.vocab = 128256, .hidden = 2048, .intermediate = 6144, .layers = 32,
                     .heads = 16, .context = 131072, .bos_id = 128000, .eos_id = 128001,
                     .tied = true},
     .hf_interleaved = true, .latent = kDeepseekLatent},
    // dots.llm1 ("dots.llm1 Technical Report"): Qwen 3's attention and DeepSeek-V3's experts.
    {.architecture = Architecture::kDots1, .name = "dots1",
     .hf_names = {{{"Dots1ForCausalLM", "dots1"}}},
     .hf_defaults = {.vocab = 152064, .hidden = 4608, .intermediate = 10944, .layers = 62,
                     .heads = 32, .kv_heads = 32, .context = 2048, .window = 4096,
                     .expert_width = 1408},
     .layers = LayerRule::kUpperWindow, .hf_biases = kAttentionBiases,
     .hf_experts = {.layers = ExpertLayers::kBehindDense, .score = RouterScore::kSigmoid,
                    .bias = "gate.e_score_correction_bias", .dense_layers = 0,
                    .shared = "mlp.shared_experts."},
     .qk_norm = QkNormKind::kHead},
    // Qwen 3.5 without experts, text: Qwen3-Next's layers, whose matrices lie apart.
    {.architecture = Architecture::kQwen35, .name = "qwen3_5",
     .hf_names = {{{"Qwen3_5ForCausalLM", "qwen3_5_text"},
                   {"Qwen3_5ForConditionalGeneration", "qwen3_5"}}},
     .hf_defaults = {.vocab = 248320, .hidden = 4096, .intermediate = 12288, .layers = 32,
                     .heads = 16, .kv_heads = 4, .head_dim = 256, .context = 32768,
                     .rotary_portion = 0.25},
     .layers = LayerRule::kPeriodicLinear, .qk_norm = QkNormKind::kHead, .hf_norms_add_one = true,
     .attention_gate = true, .linear_apart = true, .in_multimodal = true},
    // Llama 4, text: three layers of four rotate and see a chunk of their tokens, in the fourth queries
    // grow with their position; experts, beside one for all tokens, read a token times its weight.
    {.architecture = Architecture::kLlama4, .name = "llama4",
     .hf_names = {{{"Llama4ForCausalLM", "llama4_text"},
                   {"Llama4ForConditionalGeneration", "llama4"}}},
     .hf_defaults = {.vocab = 202048, .hidden = 5120, .intermediate = 16384, .layers = 48,
                     .heads = 40, .kv_heads = 8, .head_dim = 128, .context = 131072,
                     .norm_eps = 1e-5f, .rope_theta = 500000.0f, .window = 8192, .bos_id = 1,
                     .eos_id = 2, .experts = 16, .experts_per_token = 1, .expert_width = 8192},
     .gguf_name = "llama4", .gguf_interleaved = true, .hf_interleaved = true,
     .hf_keys = {.intermediate = "intermediate_size_mlp"},
     .hf_tensors = {.gate = "feed_forward.gate_proj", .up = "feed_forward.up_proj",
                    .down = "feed_forward.down_proj"},
     .layers = LayerRule::kPeriodicChunks, .window_period = 4, .hf_biases = kAttentionBiases,
     .hf_experts = {.layers = ExpertLayers::kInterleaved, .score = RouterScore::kSigmoid,
                    .width_key = "intermediate_size", .block = "feed_forward.", .router = "router",
                    .stacked_gate_up = "experts.gate_up_proj",
                    .stacked_down = "experts.down_proj", .transposed = true,
                    .weighs_inputs = true, .shared_count = 1,
                    .shared = "feed_forward.shared_expert."},
     .gguf_experts = true, .qk_norm = QkNormKind::kHeadPlain, .hf_qk_norm_key = "use_qk_norm",
     .in_multimodal = true},
    // Hunyuan 0.5B to 7B ("Hunyuan-A13B Technical Report"): Llama's form with RMSNorm on each head of Q
    // and K behind RoPE.
    {.architecture = Architecture::kHunyuanDense, .name = "hunyuan_v1_dense",
     .hf_names = {{{"HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense"}}},
     .hf_defaults = {.vocab = 290943, .hidden = 4096, .intermediate = 11008, .layers = 32,
                     .heads = 32, .context = 2048, .norm_eps = 1e-5f, .bos_id = 1, .eos_id = 2},
     .gguf_name = "hunyuan-dense", .hf_tensors = kHunyuanTensors, .hf_biases = kAttentionBiases,
     .qk_norm = QkNormKind::kHead, .qk_norm_behind_rope = true},
    // Hunyuan-A13B: that with experts in every layer, beside one that every token takes.
    {.architecture = Architecture::kHunyuanMoe, .name = "hunyuan_v1_moe",
     .hf_names = {{{"HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe"}}},
     .hf_defaults = {.vocab = 290943, .hidden = 4096, .intermediate = 11008, .layers = 32,
                     .heads = 32, .context = 2048, .norm_eps = 1e-5f, .bos_id = 1, .eos_id = 2,
                     .experts = 1, .experts_per_token = 1},
     .gguf_name = "hunyuan-moe", .hf_tensors = kHunyuanTensors, .hf_biases = kAttentionBiases,
     .hf_experts = {.layers = ExpertLayers::kEvery, .renormalize = true,
                    .width_key = "intermediate_size", .router = "gate.wg", .shared_count_key = "",
                    .shared_count = 1, .shared = "mlp.shared_mlp."},
     .gguf_experts = true, .qk_norm = QkNormKind::kHead, .qk_norm_behind_rope = true},
    // ERNIE 4.5 with experts ("ERNIE 4.5 Technical Report"): ERNIE 4.5's form; behind dense layers
    // experts by a softmax to which a bias is added, beside some that every token takes.
    {.architecture = Architecture::kErnie45Moe, .name = "ernie4_5_moe",
     .hf_names = {{{"Ernie4_5_MoeForCausalLM", "ernie4_5_moe"}}},
     .hf_defaults = {.vocab = 103424, .hidden = 2560, .intermediate = 12288, .layers = 28,
                     .heads = 20, .kv_heads = 4, .context = 131072, .norm_eps = 1e-5f,
                     .rope_theta = 500000.0f, .bos_id = 1, .eos_id = 2, .tied = true,
                     .experts = 64, .experts_per_token = 6, .expert_width = 1536},
     .gguf_name = "ernie4_5-moe", .gguf_interleaved = true, .hf_interleaved = true,
     .hf_biases = AllBiases({.key = "use_bias"}),
     .hf_experts = {.layers = ExpertLayers::kBetween, .renormalize = true,
                    .score = RouterScore::kSoftmaxBiased,
                    .bias = "moe_statics.e_score_correction_bias",
                    .shared_count_key = "moe_num_shared_experts", .shared_count = 2,
                    .shared = "mlp.shared_experts."},
     .gguf_experts = true},
    // InternLM 2 and 2.5 ("InternLM2 Technical Report"): Llama's form; each KV head's rows of Q, K and
    // V lie together.
    {.architecture = Architecture::kInternLm2, .name = "internlm2",
     .hf_names = {{{"InternLM2ForCausalLM", "internlm2"}}},
     .hf_defaults = {.vocab = 103168, .hidden = 4096, .intermediate = 11008, .layers = 32,
                     .heads = 32, .context = 2048, .bos_id = 1, .eos_id = 2},
     .gguf_name = "internlm2", .gguf_interleaved = true,
     .hf_tensors = {.embedding = "tok_embeddings", .logits = "output",
                    .input_norm = "attention_norm", .mlp_norm = "ffn_norm",
                    .qkv = "attention.wqkv", .attention_output = "attention.wo",
                    .gate = "feed_forward.w1", .up = "feed_forward.w3",
                    .down = "feed_forward.w2"},
     .hf_biases = {.qkv = {.key = "bias", .otherwise = true},
                   .output = {.key = "bias", .otherwise = true}},
     .qkv = QkvLayout::kByHead},
    // InternLM 3: Llama's form with keys of its own for biases. In GGUF it is a Llama.
    {.architecture = Architecture::kInternLm3, .name = "internlm3",
     .hf_names = {{{"InternLM3ForCausalLM", "internlm3"}}},
     .hf_defaults = {.vocab = 128512, .hidden = 4096, .intermediate = 10240, .layers = 48,
                     .heads = 32, .kv_heads = 2, .context = 32768, .norm_eps = 1e-5f, .bos_id = 1,
                     .eos_id = 2},
     .hf_biases = {.qkv = {.key = "qkv_bias"}, .output = {.key = "bias"}, .mlp = {.key = "bias"}}},
};
// clang-format on

// The rows of all files, in the order of the enum.
template <size_t... n>
consteval auto Joined(const ArchitectureInfo (&... rows)[n]) {
  std::array<ArchitectureInfo, (n + ...)> table = {};
  auto at = table.begin();
  ((at = std::copy(std::begin(rows), std::end(rows), at)), ...);
  return table;
}
constexpr auto kTable = Joined(kDecoderRows, kEarlyRows, kSparseRows, kShortConvRows, kMambaRows,
                               kGemmaRows, kEncoderRows);

consteval bool IsInOrder() {
  for (size_t i = 0; i < kTable.size(); ++i) {
    if (kTable[i].architecture != static_cast<Architecture>(i)) return false;
  }
  return true;
}
static_assert(kTable.size() == kArchitectureCount && IsInOrder(),
              "the table needs one row for each architecture, in the order of the enum");

}  // namespace

std::span<const ArchitectureInfo> Architectures() { return kTable; }

const ArchitectureInfo& InfoOf(Architecture architecture) {
  return kTable[static_cast<size_t>(architecture)];
}

std::string_view ArchitectureName(Architecture architecture) { return InfoOf(architecture).name; }

}  // namespace sluice::files
