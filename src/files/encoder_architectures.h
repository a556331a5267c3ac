// The rows of files/architectures.cc for models that embed texts.
#pragma once

#include "files/architecture_parts.h"
#include "files/architectures.h"

namespace sluice::files {

// clang-format off
inline constexpr ArchitectureInfo kEncoderRows[] = {
    // BERT and MiniLM ("BERT: Pre-training of Deep Bidirectional Transformers for Language
    // Understanding"): embeds texts.
    {.architecture = Architecture::kBert, .name = "bert",
     .hf_names = {{{"BertModel", "bert"},
                   {"BertForMaskedLM", "bert"},
                   {"BertForSequenceClassification", "bert"}}},
     .hf_defaults = {.vocab = 30522, .hidden = 768, .intermediate = 3072, .layers = 12,
                     .heads = 12, .context = 512, .norm_eps = 1e-12f},
     .gguf_name = "bert", .hf_keys = kLayerNormKeys, .norm = ModelNorm::kLayer, .encoder = true, .token_types = true,
     .adds_to_normed = true,
     .layers = LayerRule::kNoRope, .hf_biases = AllBiases({.otherwise = true}), .plain_mlp = true,
     .activation = ActivationKind::kGeluErf},
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
     .hf_keys = kLayerNormKeys, .norm = ModelNorm::kLayer, .encoder = true, .token_types = true,
     .adds_to_normed = true,
     .positions_behind_padding = true, .layers = LayerRule::kNoRope,
     .hf_biases = AllBiases({.otherwise = true}), .plain_mlp = true,
     .activation = ActivationKind::kGeluErf},
    // MPNet ("MPNet: Masked and Permuted Pre-training for Language Understanding"): RoBERTa's form
    // without types of tokens, and a bias of scores by distance.
    {.architecture = Architecture::kMPNet, .name = "mpnet",
     .hf_names = {{{"MPNetModel", "mpnet"},
                   {"MPNetForMaskedLM", "mpnet"},
                   {"MPNetForSequenceClassification", "mpnet"}}},
     .hf_defaults = {.vocab = 30527, .hidden = 768, .intermediate = 3072, .layers = 12,
                     .heads = 12, .context = 512, .norm_eps = 1e-12f, .bos_id = 0, .eos_id = 2},
     .hf_keys = kLayerNormKeys, .norm = ModelNorm::kLayer, .encoder = true,
     .adds_to_normed = true, .positions_behind_padding = true, .layers = LayerRule::kNoRope,
     .hf_biases = AllBiases({.otherwise = true}), .plain_mlp = true,
     .activation = ActivationKind::kGeluErf},
    // Nomic Embed 1 and 1.5 ("Nomic Embed: Training a Reproducible Long Context Text Embedder"):
    // BERT's form with RoPE, gates, and no biases of products.
    {.architecture = Architecture::kNomicBert, .name = "nomic_bert",
     .hf_names = {{{"NomicBertModel", "nomic_bert"}, {"NomicBertForMaskedLM", "nomic_bert"}}},
     .hf_defaults = {.vocab = 30528, .hidden = 768, .intermediate = 3072, .layers = 12,
                     .heads = 12, .context = 2048, .norm_eps = 1e-12f, .rope_theta = 1000.0f},
     .gguf_name = "nomic-bert", .hf_keys = kLayerNormKeys, .norm = ModelNorm::kLayer,
     .encoder = true, .token_types = true, .adds_to_normed = true},
    // ModernBERT ("Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder ..."): norms
    // before blocks, windows in two layers of three, two RoPEs, gates with GELU.
    {.architecture = Architecture::kModernBert, .name = "modernbert",
     .hf_names = {{{"ModernBertModel", "modernbert"},
                   {"ModernBertForMaskedLM", "modernbert"},
                   {"ModernBertForSequenceClassification", "modernbert"}}},
     .hf_defaults = {.vocab = 50368, .hidden = 768, .intermediate = 1152, .layers = 22,
                     .heads = 12, .context = 8192, .norm_eps = 1e-5f, .rope_theta = 160000.0f,
                     .window = 128, .bos_id = 50281, .eos_id = 50282},
     .hf_keys = {.norm_eps = "norm_eps", .activation = "hidden_activation"},
     .norm = ModelNorm::kLayerNoBias, .encoder = true,
     .layers = LayerRule::kLocal, .window_period = 3, .local_rope = true,
     .hf_biases = kAttentionMlpBiases, .embedding_norm = true, .activation = ActivationKind::kGeluErf},
};
// clang-format on

}  // namespace sluice::files
