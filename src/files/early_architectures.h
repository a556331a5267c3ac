// The rows of files/architectures.cc for models of the forms before Llama's: a table of positions
// or ALiBi, LayerNorms, feed-forward parts without a gate.
#pragma once

#include "files/architecture_parts.h"

namespace sluice::files {

// clang-format off
inline constexpr ArchitectureInfo kEarlyRows[] = {
    // GPT-2: a table of positions, LayerNorms, biases on every product; matrices lie as columns.
    {.architecture = Architecture::kGpt2, .name = "gpt2",
     .hf_names = {{{"GPT2LMHeadModel", "gpt2"}}},
     .hf_defaults = {.vocab = 50257, .hidden = 768, .layers = 12, .heads = 12, .context = 1024,
                     .norm_eps = 1e-5f, .bos_id = 50256, .eos_id = 50256, .tied = true},
     .gguf_name = "gpt2",
     .hf_keys = {.norm_eps = "layer_norm_epsilon", .activation = "activation_function",
                 .hidden = "n_embd", .intermediate = "n_inner", .layers = "n_layer",
                 .heads = "n_head", .context = "n_positions"},
     .hf_tensors = {.decoder = "transformer.", .embedding = "wte", .final_norm = "ln_f",
                    .layers = "h.", .input_norm = "ln_1", .mlp_norm = "ln_2",
                    .qkv = "attn.c_attn", .attention_output = "attn.c_proj", .up = "mlp.c_fc",
                    .down = "mlp.c_proj"},
     .norm = ModelNorm::kLayer, .layers = LayerRule::kNoRope,
     .hf_biases = AllBiases({.otherwise = true}), .position_table = true,
     .qkv = QkvLayout::kStacked, .gguf_qkv = QkvLayout::kStacked, .hf_transposed = true,
     .plain_mlp = true, .activation = ActivationKind::kGeluTanh},
    // GPT-NeoX 20B and Pythia ("GPT-NeoX-20B: An Open-Source Autoregressive Language Model"): LayerNorms,
    // each of a block's own, before attention and an MLP without a gate that stand side by side.
    {.architecture = Architecture::kGptNeoX, .name = "gpt_neox",
     .hf_names = {{{"GPTNeoXForCausalLM", "gpt_neox"}}},
     .hf_defaults = {.vocab = 50432, .hidden = 6144, .intermediate = 24576, .layers = 44,
                     .heads = 64, .context = 2048, .norm_eps = 1e-5f, .rotary_portion = 0.25,
                     .bos_id = 0, .eos_id = 2},
     .gguf_name = "gptneox", .hf_keys = kLayerNormKeys,
     .hf_tensors = kGptNeoXTensors,
     .norm = ModelNorm::kLayer,
     .hf_biases = {.qkv = {.key = "attention_bias", .otherwise = true},
                   .output = {.key = "attention_bias", .otherwise = true},
                   .mlp = {.otherwise = true}},
     .qkv = QkvLayout::kByHead, .gguf_qkv = QkvLayout::kStacked, .plain_mlp = true,
     .parallel_residual = true, .parallel_norms = true,
     .hf_parallel_key = "use_parallel_residual", .activation = ActivationKind::kGeluErf},
    // Falcon 7B, 40B, 180B, Falcon 2, and RefinedWeb models with ALiBi ("The Falcon Series of Open
    // Language Models"): LayerNorms, attention and an MLP without a gate side by side, few KV heads.
    {.architecture = Architecture::kFalcon, .name = "falcon",
     .hf_names = {{{"FalconForCausalLM", "falcon"},
                   {"RWForCausalLM", "RefinedWebModel"},
                   {"RWForCausalLM", "RefinedWeb"}}},
     .hf_defaults = {.vocab = 65024, .hidden = 4544, .layers = 32, .heads = 71, .context = 2048,
                     .norm_eps = 1e-5f, .bos_id = 11, .eos_id = 11, .tied = true},
     .gguf_name = "falcon",
     .hf_keys = {.norm_eps = "layer_norm_epsilon", .activation = "activation", .hidden = "n_embed",
                 .intermediate = "ffn_hidden_size", .layers = "n_layer", .heads = "n_head",
                 .kv_heads = "num_kv_heads"},
     .hf_tensors = kFalconTensors,
     .norm = ModelNorm::kLayer, .hf_biases = AllBiases({.key = "bias"}),
     .alibi = AlibiRule::kSwitched, .qkv = QkvLayout::kByHead, .gguf_qkv = QkvLayout::kStacked,
     .plain_mlp = true, .parallel_residual = true, .falcon_switches = true,
     .activation = ActivationKind::kGeluErf},
    // BLOOM and BLOOMZ ("BLOOM: A 176B-Parameter Open-Access Multilingual Language Model"): ALiBi, a norm
    // of the embeddings, LayerNorms, an MLP without a gate, biases on every product.
    {.architecture = Architecture::kBloom, .name = "bloom",
     .hf_names = {{{"BloomForCausalLM", "bloom"}}},
     .hf_defaults = {.vocab = 250880, .hidden = 64, .layers = 2, .heads = 8, .context = 2048,
                     .norm_eps = 1e-5f, .bos_id = 1, .eos_id = 2, .tied = true},
     .gguf_name = "bloom",
     .hf_keys = {.norm_eps = "layer_norm_epsilon", .activation = "", .hidden = "n_embed",
                 .intermediate = "n_inner", .layers = "n_layer", .heads = "n_head",
                 .context = "seq_length"},
     .hf_tensors = kFalconTensors,
     .norm = ModelNorm::kLayer, .layers = LayerRule::kNoRope,
     .hf_biases = AllBiases({.otherwise = true}), .embedding_norm = true,
     .alibi = AlibiRule::kAlways, .qkv = QkvLayout::kByHead, .gguf_qkv = QkvLayout::kStacked,
     .plain_mlp = true, .activation = ActivationKind::kGeluTanh},
    // MPT 7B and 30B: ALiBi, LayerNorms without biases, an MLP without a gate.
    {.architecture = Architecture::kMpt, .name = "mpt",
     .hf_names = {{{"MptForCausalLM", "mpt"}, {"MPTForCausalLM", "mpt"}}},
     .hf_defaults = {.vocab = 50368, .hidden = 2048, .layers = 24, .heads = 16, .context = 2048,
                     .norm_eps = 1e-5f, .tied = true},
     .gguf_name = "mpt",
     .hf_keys = kMptKeys, .hf_tensors = kMptTensors,
     .norm = ModelNorm::kLayerNoBias, .layers = LayerRule::kNoRope,
     .alibi = AlibiRule::kAttnConfig, .qkv = QkvLayout::kStacked,
     .gguf_qkv = QkvLayout::kStacked, .plain_mlp = true, .activation = ActivationKind::kGeluErf},
    // Baichuan 7B, and 13B with ALiBi ("Baichuan 2: Open Large-scale Language Models"): Llama's form with
    // Q, K and V in one tensor.
    {.architecture = Architecture::kBaichuan, .name = "baichuan",
     .hf_names = {{{"BaichuanForCausalLM", "baichuan"}, {"BaiChuanForCausalLM", "baichuan"}}},
     .hf_defaults = {.vocab = 64000, .hidden = 4096, .intermediate = 11008, .layers = 32,
                     .heads = 32, .context = 4096, .bos_id = 1, .eos_id = 2},
     .gguf_name = "baichuan", .gguf_interleaved = true,
     .hf_keys = {.context = "model_max_length"}, .hf_tensors = {.qkv = "self_attn.W_pack"},
     .alibi = AlibiRule::kBySize, .qkv = QkvLayout::kStacked, .normalized_head_vocab = 125696},
};
// clang-format on

}  // namespace sluice::files
