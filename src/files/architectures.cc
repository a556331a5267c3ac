#include "files/architectures.h"

namespace sluice::files {
namespace {

// clang-format would put each row on as few lines as it can.
// clang-format off
constexpr ArchitectureInfo kTable[] = {
    // Llama 2 and 3, SmolLM 1 and 2, and others of that form ("Llama 2: Open Foundation and
    // Fine-Tuned Chat Models"): pre-norm, RoPE, grouped queries, SiLU.
    {.architecture = Architecture::kLlama, .name = "llama",
     .hf_names = {{{"LlamaForCausalLM", "llama"}}},
     .hf_defaults = {.vocab = 32000, .hidden = 4096, .intermediate = 11008, .layers = 32,
                     .heads = 32, .context = 2048, .bos_id = 1, .eos_id = 2},
     .gguf_name = "llama", .gguf_interleaved = true, .hf_biases = HfBiases::kAttentionMlp,
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
     .gguf_name = "qwen2", .layers = LayerRule::kUpperWindow, .hf_biases = HfBiases::kQkv},
    // Qwen 3, dense ("Qwen3 Technical Report"): Llama's form with RMSNorm on each head of Q and K.
    {.architecture = Architecture::kQwen3, .name = "qwen3",
     .hf_names = {{{"Qwen3ForCausalLM", "qwen3"}}},
     .hf_defaults = {.vocab = 151936, .hidden = 4096, .intermediate = 22016, .layers = 32,
                     .heads = 32, .kv_heads = 32, .head_dim = 128, .context = 32768,
                     .window = 4096},
     .gguf_name = "qwen3", .layers = LayerRule::kUpperWindow, .hf_biases = HfBiases::kAttention,
     .qk_norm = true},
    // Gemma 2 ("Gemma 2: Improving Open Language Models at a Practical Size"): norms around each
    // block, every other layer sees a window, soft caps on scores and logits.
    {.architecture = Architecture::kGemma2, .name = "gemma2",
     .hf_names = {{{"Gemma2ForCausalLM", "gemma2"}}},
     .hf_defaults = {.vocab = 256000, .hidden = 2304, .intermediate = 9216, .layers = 26,
                     .heads = 8, .kv_heads = 4, .head_dim = 256, .context = 8192, .window = 4096,
                     .bos_id = 2, .eos_id = 1, .tied = true},
     .gguf_name = "gemma2", .norms_after = true,
     .layers = LayerRule::kPeriodicWindow, .window_period = 2, .hf_biases = HfBiases::kAttention,
     .hf_norms_add_one = true},
    // Gemma 3, text ("Gemma 3 Technical Report"): Gemma 2's form with Q/K norms instead of soft caps,
    // and a RoPE of their own for the window layers.
    {.architecture = Architecture::kGemma3, .name = "gemma3",
     .hf_names = {{{"Gemma3ForCausalLM", "gemma3_text"},
                   {"Gemma3ForConditionalGeneration", "gemma3"}}},
     .hf_defaults = {.vocab = 262208, .hidden = 2304, .intermediate = 9216, .layers = 26,
                     .heads = 8, .kv_heads = 4, .head_dim = 256, .context = 131072,
                     .rope_theta = 1e6f, .window = 4096, .bos_id = 2, .eos_id = 1, .tied = true},
     .gguf_name = "gemma3", .norms_after = true,
     .layers = LayerRule::kPeriodicWindow, .window_period = 6, .local_rope = true,
     .hf_biases = HfBiases::kAttention, .qk_norm = true, .hf_norms_add_one = true,
     .in_multimodal = true},
    // Phi-3 and Phi-4-mini ("Phi-3 Technical Report"): Llama's form with fused matrices in the files,
    // LongRoPE, and partial rotation in some sizes.
    {.architecture = Architecture::kPhi3, .name = "phi3",
     .hf_names = {{{"Phi3ForCausalLM", "phi3"}}},
     .hf_defaults = {.vocab = 32064, .hidden = 3072, .intermediate = 8192, .layers = 32,
                     .heads = 32, .context = 4096, .norm_eps = 1e-5f, .bos_id = 1,
                     .eos_id = 32000},
     .gguf_name = "phi3", .layers = LayerRule::kWindow, .fused = true},
    // SmolLM3: Llama's form without RoPE in every fourth layer.
    {.architecture = Architecture::kSmolLM3, .name = "smollm3",
     .hf_names = {{{"SmolLM3ForCausalLM", "smollm3"}}},
     .hf_defaults = {.vocab = 128256, .hidden = 2048, .intermediate = 11008, .layers = 36,
                     .heads = 16, .kv_heads = 4, .context = 32768, .rope_theta = 2e6f,
                     .bos_id = 128000, .eos_id = 128001, .tied = true},
     .gguf_name = "smollm3", .gguf_interleaved = true, .layers = LayerRule::kPeriodicRope,
     .hf_biases = HfBiases::kAttentionMlp},
    // Qwen3-Next without experts ("Gated Delta Networks: Improving Mamba2 with Delta Rule"): in three
    // layers of four a short convolution and a gated delta rule, in the fourth attention with a gate.
    {.architecture = Architecture::kQwen3Next, .name = "qwen3_next",
     .hf_names = {{{"Qwen3NextForCausalLM", "qwen3_next"}}},
     .hf_defaults = {.vocab = 151936, .hidden = 2048, .intermediate = 5632, .layers = 48,
                     .heads = 16, .kv_heads = 2, .head_dim = 256, .context = 32768,
                     .rotary_portion = 0.25},
     .layers = LayerRule::kPeriodicLinear, .qk_norm = true, .hf_norms_add_one = true,
     .attention_gate = true},
    // StableLM 3B and 2 ("Stable LM 2 1.6B Technical Report"): Llama's form with LayerNorms and partial
    // rotation; with "use_parallel_residual" one of them is read by attention and MLP alike.
    {.architecture = Architecture::kStableLm, .name = "stablelm",
     .hf_names = {{{"StableLmForCausalLM", "stablelm"}}},
     .hf_defaults = {.vocab = 50304, .hidden = 2560, .intermediate = 6912, .layers = 32,
                     .heads = 32, .kv_heads = 32, .context = 4096, .norm_eps = 1e-5f,
                     .rotary_portion = 0.25, .bos_id = 0, .eos_id = 0},
     .layer_norms = true},
    // MiMo 7B ("MiMo: Unlocking the Reasoning Potential of Language Model"): Qwen 2's form, with heads
    // of a layer each that guess further tokens.
    {.architecture = Architecture::kMiMo, .name = "mimo",
     .hf_names = {{{"MiMoForCausalLM", "mimo"}}},
     .hf_defaults = {.vocab = 151936, .hidden = 4096, .intermediate = 22016, .layers = 32,
                     .heads = 32, .kv_heads = 32, .context = 32768, .window = 4096},
     .layers = LayerRule::kUpperWindow, .hf_biases = HfBiases::kQkv, .mtp_heads = true},
    // Qwen 3 with experts ("Qwen3 Technical Report"): Qwen 3's attention, and in most layers experts
    // of which a softmax over all takes some.
    {.architecture = Architecture::kQwen3Moe, .name = "qwen3_moe",
     .hf_names = {{{"Qwen3MoeForCausalLM", "qwen3_moe"}}},
     .hf_defaults = {.vocab = 151936, .hidden = 2048, .intermediate = 6144, .layers = 24,
                     .heads = 32, .kv_heads = 4, .context = 32768, .window = 4096, .experts = 128,
                     .experts_per_token = 8, .expert_width = 768},
     .gguf_name = "qwen3moe", .layers = LayerRule::kSwitchedWindow,
     .hf_biases = HfBiases::kAttention, .hf_experts = HfExperts::kSparse, .gguf_experts = true,
     .qk_norm = true},
    // Mixtral 8x7B and 8x22B ("Mixtral of Experts"): Mistral's form with experts in every layer. In
    // GGUF it is a Llama that has experts.
    {.architecture = Architecture::kMixtral, .name = "mixtral",
     .hf_names = {{{"MixtralForCausalLM", "mixtral"}}},
     .hf_defaults = {.vocab = 32000, .hidden = 4096, .intermediate = 14336, .layers = 32,
                     .heads = 32, .kv_heads = 8, .context = 131072, .norm_eps = 1e-5f,
                     .rope_theta = 1e6f, .bos_id = 1, .eos_id = 2, .experts = 8,
                     .experts_per_token = 2},
     .layers = LayerRule::kWindow, .hf_experts = HfExperts::kEvery},
    // BERT and MiniLM ("BERT: Pre-training of Deep Bidirectional Transformers for Language
    // Understanding"): embeds texts.
    {.architecture = Architecture::kBert, .name = "bert",
     .hf_names = {{{"BertModel", "bert"},
                   {"BertForMaskedLM", "bert"},
                   {"BertForSequenceClassification", "bert"}}},
     .hf_defaults = {.vocab = 30522, .hidden = 768, .intermediate = 3072, .layers = 12,
                     .heads = 12, .context = 512, .norm_eps = 1e-12f},
     .layer_norms = true, .encoder = true, .layers = LayerRule::kNoRope,
     .hf_biases = HfBiases::kAll},
    // RoBERTa and XLM-R ("RoBERTa: A Robustly Optimized BERT Pretraining Approach", "Unsupervised
    // Cross-lingual Representation Learning at Scale"): BERT's form with other positions and head.
    {.architecture = Architecture::kRoberta, .name = "roberta",
     .hf_names = {{{"RobertaModel", "roberta"},
                   {"RobertaForMaskedLM", "roberta"},
                   {"RobertaForSequenceClassification", "roberta"},
                   {"XLMRobertaModel", "xlm-roberta"},
                   {"XLMRobertaForMaskedLM", "xlm-roberta"},
                   {"XLMRobertaForSequenceClassification", "xlm-roberta"}}},
     .hf_defaults = {.vocab = 50265, .hidden = 768, .intermediate = 3072, .layers = 12,
                     .heads = 12, .context = 512, .norm_eps = 1e-12f, .bos_id = 0, .eos_id = 2},
     .layer_norms = true, .encoder = true, .positions_behind_padding = true,
     .layers = LayerRule::kNoRope, .hf_biases = HfBiases::kAll},
};
// clang-format on

consteval bool IsInOrder() {
  for (size_t i = 0; i < std::size(kTable); ++i) {
    if (kTable[i].architecture != static_cast<Architecture>(i)) return false;
  }
  return true;
}
static_assert(std::size(kTable) == kArchitectureCount && IsInOrder(),
              "the table needs one row for each architecture, in the order of the enum");

}  // namespace

std::span<const ArchitectureInfo> Architectures() { return kTable; }

const ArchitectureInfo& InfoOf(Architecture architecture) {
  return kTable[static_cast<size_t>(architecture)];
}

std::string_view ArchitectureName(Architecture architecture) { return InfoOf(architecture).name; }

}  // namespace sluice::files
