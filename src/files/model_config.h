// What a model is, whichever file said so: config.json (as transformers 4 or 5 writes it) or GGUF
// metadata. Every field is checked; code behind this folder does not check them again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "sluice/sampling.h"
#include "sluice/status.h"

namespace sluice::files {

// Every architecture that Sluice runs: M(Llama) stands for Architecture::kLlama. What they are is
// the table in architectures.cc.
#define SLUICE_ARCHITECTURES(M) \
  M(Llama)                      \
  M(Mistral)                    \
  M(Qwen2)                      \
  M(Qwen3)                      \
  M(Gemma2)                     \
  M(Gemma3)                     \
  M(Phi3)                       \
  M(SmolLM3)                    \
  M(Qwen3Next)                  \
  M(StableLm)                   \
  M(MiMo)                       \
  M(Qwen3Moe)                   \
  M(Mixtral)                    \
  M(Olmo2)                      \
  M(Granite)                    \
  M(Cohere)                     \
  M(Cohere2)                    \
  M(Glm)                        \
  M(Glm4)                       \
  M(SeedOss)                    \
  M(Exaone4)                    \
  M(Ernie45)                    \
  M(Nemotron)                   \
  M(Phi2)                       \
  M(StarCoder2)                 \
  M(Qwen2Moe)                   \
  M(Olmoe)                      \
  M(GraniteMoe)                 \
  M(Glm4Moe)                    \
  M(MiniMaxM2)                  \
  M(GptOss)                     \
  M(DeepseekV2)                 \
  M(DeepseekV3)                 \
  M(Glm4MoeLite)                \
  M(Youtu)                      \
  M(Dots1)                      \
  M(Qwen35)                     \
  M(Llama4)                     \
  M(HunyuanDense)               \
  M(HunyuanMoe)                 \
  M(Ernie45Moe)                 \
  M(InternLm2)                  \
  M(InternLm3)                  \
  M(Gpt2)                       \
  M(GptNeoX)                    \
  M(Falcon)                     \
  M(Bloom)                      \
  M(Mpt)                        \
  M(Baichuan)                   \
  M(DeepseekV32)                \
  M(GlmMoeDsa)                  \
  M(Lfm2)                       \
  M(Lfm2Moe)                    \
  M(Mamba2)                     \
  M(GraniteMoeHybrid)           \
  M(Bamba)                      \
  M(FalconH1)                   \
  M(NemotronH)                  \
  M(MiniMax)                    \
  M(Mamba)                      \
  M(FalconMamba)                \
  M(Jamba)                      \
  M(Gemma4)                     \
  M(Gemma3n)                    \
  M(Bert)                       \
  M(Roberta)                    \
  M(MPNet)                      \
  M(NomicBert)                  \
  M(ModernBert)

#define SLUICE_ENUMERATOR(name) k##name,
enum class Architecture { SLUICE_ARCHITECTURES(SLUICE_ENUMERATOR) };
#undef SLUICE_ENUMERATOR
#define SLUICE_ONE(name) +1
inline constexpr size_t kArchitectureCount = 0 SLUICE_ARCHITECTURES(SLUICE_ONE);
#undef SLUICE_ONE
std::string_view ArchitectureName(Architecture architecture);  // "llama", "qwen2", ...

enum class RopeScaling { kNone, kLinear, kDynamicNtk, kYarn, kLlama3, kLongRope, kProportional };

struct RopeConfig {
  float theta = 10000.0f;
  int rotary_dims = 0;       // <= head_dim; the rest of a head passes through
  bool interleaved = false;  // pairs (2i, 2i+1) instead of (i, i + rotary_dims / 2)
  RopeScaling scaling = RopeScaling::kNone;
  float factor = 1.0f;
  float portion = 1.0f;      // kProportional: of the rotated pairs, that turn at all
  int original_context = 0;  // max position the model was first trained with
  float low_freq_factor = 1.0f, high_freq_factor = 4.0f;  // Llama 3
  float beta_fast = 32.0f, beta_slow = 1.0f;              // YaRN
  std::optional<float> attention_factor;                  // YaRN, LongRoPE
  std::optional<float> mscale, mscale_all_dim;            // YaRN
  bool truncate = true;                                   // YaRN: round the ramp's ends
  std::vector<float> short_factor, long_factor;           // LongRoPE, rotary_dims / 2 each
  std::vector<float>
      frequency_factors;  // GGUF's rope_freqs tensor: divides each frequency; or empty
};

enum class LayerKind {
  kFull,
  kWindow,
  kLinear,     // no attention: a short convolution and a gated delta rule over one running state
  kShortConv,  // no attention: a short convolution between gates, over the last inputs
  kMamba,      // no attention: a short convolution and the recurrence of Mamba or Mamba-2 over a
               // running state
  kLightning,  // no attention: linear attention over a running state that decays with the distance
};
// Whether a layer keeps a state of each sequence instead of K and V of each token.
constexpr bool HasState(LayerKind kind) {
  return kind != LayerKind::kFull && kind != LayerKind::kWindow;
}
enum class ActivationKind {
  kSilu,
  kGeluTanh,
  kGeluErf,
  kReluSquared,
  kClampedSwiglu,  // of gpt-oss: ops/activation.h
};

// RMSNorm of Q and K before RoPE, unless ModelConfig::qk_norm_behind_rope.
enum class QkNormKind {
  kNone,
  kHead,       // of each head, all by the same weights
  kHeadPlain,  // of each head, without weights, in layers that have RoPE
  kWidth,      // of all heads of a token together
};

struct LayerConfig {
  LayerKind kind = LayerKind::kFull;
  bool use_rope = true;
  bool local_rope = false;  // uses `local_rope` of the model instead of `rope` (Gemma 3)
  bool mlp = true;          // there is a feed-forward part
  bool experts = false;     // the feed-forward part is made of experts
  // Of attention, where they differ from the model's; 0: they don't.
  int kv_heads = 0, head_dim = 0;
  bool v_is_k = false;  // V is what K is before its norm and RoPE: it has no matrix of its own
  // The layer before it, of the same kind and heads, whose K and V it reads, as it has none of its
  // own; -1: it has.
  int kv_of = -1;
  // Of latent attention with an indexer: it sees the positions that the last layer before it with
  // an indexer has chosen, and has none.
  bool reuses_positions = false;
  int mlp_width = 0;  // of a feed-forward part without experts; 0: the model's
  // Of the gate of such a part: the numbers that lie so many standard deviations above a token's
  // mean are kept, less that bound, and the others become 0.
  std::optional<float> gate_deviations;
  // What the mixer and the feed-forward part add to is what their norm gives, times these, instead
  // of what it reads; 0: it is not.
  float mixer_residual = 0.0f, mlp_residual = 0.0f;
  // Which layers of the checkpoint the mixer and the feed-forward part are; -1: the one of the
  // layer's own index. A layer whose mixer is of the same one as the last layer's stands beside it:
  // both read the same norm.
  int stored = -1, stored_mlp = -1;
};

enum class RouterScore { kSoftmax, kSigmoid, kSoftmaxBiased };  // as in ops/experts.h

// Experts of a layer that has some, each a feed-forward part of its own. A router gives a token
// some of them, by the scores that it makes of a product with the hidden state (ops/experts.h).
struct ExpertsConfig {
  int count = 0;
  int per_token = 0;
  int width = 0;  // of one expert, as intermediate_size
  RouterScore score = RouterScore::kSoftmax;
  bool bias = false;                // on the scores, for choosing alone
  bool product_biases = false;      // on the products of the router and of each expert
  int groups = 1, groups_kept = 1;  // a token's experts come from some groups of them
  bool renormalize = false;         // the weights of a token's experts add up to `scale`
  float scale = 1.0f;               // of the weights
  bool scales = false;              // a weight is multiplied by a number of its expert, too
  // A dense feed-forward part stands beside them, each with a norm of its own before and behind, as
  // the router has one before.
  bool beside_dense = false;
  bool weighs_inputs = false;  // an expert reads the token times its weight
  int shared_width = 0;        // of an expert that every token takes; 0: none
  bool shared_gate = false;    // which is multiplied by the sigmoid of a product of its own
};

// What parts of a layer of Mamba-2 are multiplied by.
struct MambaScales {
  float gate = 1.0f, dt = 1.0f;                      // before their functions
  float values = 1.0f, keys = 1.0f, queries = 1.0f;  // before the convolution
  float out = 1.0f;                                  // before the product behind
  bool plain() const { return values == 1.0f && keys == 1.0f && queries == 1.0f; }
};

// Norms of what makes the steps and meets the state in a layer of Mamba.
enum class ScanNorms {
  kNone,
  kWeighted,
  kPlain,  // without weights
};

// The heads of kLinear, kMamba and kLightning layers. A key head serves value_heads / key_heads
// value heads. Mamba-2 calls the number of key heads that of groups, and the width of one that of
// the state. Mamba's channels are one value head, whose key head is as wide as a channel's state.
struct LinearAttentionConfig {
  int key_heads = 0, value_heads = 0;
  int key_head_dim = 0, value_head_dim = 0;
  int conv_kernel = 0;     // tokens that the convolution sees, its own included; 0: there is none
  bool mamba = false;      // the layers with a state are kMamba
  bool conv_bias = false;  // on the convolution
  bool product_bias = false;  // on the products before and behind
  bool gated_norm = true;     // kMamba: what meets the gate is normed
  // kMamba: a channel's step sizes go through a latent of so many numbers that all channels share,
  // as Mamba has it; 0: a value head has one step size, as Mamba-2 has it.
  int step_rank = 0;
  ScanNorms scan_norms = ScanNorms::kNone;  // with step_rank
  float scan_norm_eps = 1e-6f;
  MambaScales scales;

  int key_width() const { return key_heads * key_head_dim; }
  int value_width() const { return value_heads * value_head_dim; }
  // Of the convolution: queries, keys and values; of Mamba values alone.
  int channels() const { return (step_rank > 0 ? 0 : 2 * key_width()) + value_width(); }
  // Of a token: step sizes, or those and decays. Mamba makes them behind the convolution.
  int gates() const {
    if (step_rank > 0) return 0;
    return mamba ? value_heads : conv_kernel > 0 ? 2 * value_heads : 0;
  }
  // Of Mamba, what is made of a token behind the convolution: the latent of step sizes, B and C.
  int scan_width() const { return step_rank > 0 ? step_rank + 2 * key_width() : 0; }
  // That the convolution keeps.
  int conv_rows() const { return conv_kernel > 0 ? conv_kernel - 1 : 0; }
};

// The convolution of kShortConv layers, which is as wide as the hidden state.
struct ShortConvConfig {
  int kernel = 0;     // tokens that it sees, its own included
  bool bias = false;  // on it and on the products before and behind it
};

// What chooses the positions that a row of latent attention sees: of each earlier token a key,
// which the row's queries score (ops/index_scores.h).
struct IndexerConfig {
  int heads = 0;             // of queries; 0: a row sees all positions
  int head_dim = 0;          // of these and of keys
  int top_k = 0;             // positions that a row sees at most
  bool interleaved = false;  // as RopeConfig::interleaved, of its own queries and keys
};

// Attention whose K and V a token keeps as one row for all heads (DeepSeek's MLA): a latent, from
// which a matrix makes each head's keys and values, and a rotated part of the keys that all share.
struct LatentConfig {
  int kv_rank = 0;                 // of the latent; 0: the model's attention is not of this kind
  int q_rank = 0;                  // of a latent that queries go through; 0: there is none
  int nope_dim = 0, rope_dim = 0;  // of a head's queries and keys: not rotated, rotated
  int value_dim = 0;               // of a head
  IndexerConfig indexer = {};

  // Of the row: the rotated part, then the latent.
  int key_width() const { return rope_dim + kv_rank; }
};

// Several residual streams, of which the layers work on the first (ops/streams.h), and beside the
// attention of each layer two products through a narrow vector (Gemma 3n).
struct AltUpConfig {
  int streams = 0;      // 0: there is one, and no such products
  bool scaled = true;   // what a layer's inputs meet is the first stream times weights of the layer
  int laurel_rank = 0;  // of the narrow vector
};

// What each layer is given of a token beside the hidden state (Gemma 3n, Gemma 4 E2B and E4B): a
// row of a table that has those of all layers side by side, and a product with the embedding,
// normed, are added up.
struct LayerInputsConfig {
  int width = 0;  // of one layer; 0: there are none
  int rows = 0;   // of the table
};

// What activations become before they meet a matrix in F8, where the device has products of F8.
enum class F8Inputs {
  kAsTheyAre,
  kStatic,  // F8 by one scale, which the checkpoint has for each matrix
  kToken,   // F8 by the largest of a token
  kBlock,   // F8 by the largest of 128 elements of a token
};

// Matrices in F8_E4M3 with scales, each for a matrix, a row or 128 by 128 elements.
struct F8Quantization {
  std::string method;  // as the checkpoint calls it
  F8Inputs inputs = F8Inputs::kAsTheyAre;
};
std::string ToString(const F8Quantization& quantization);  // for people

// How the hidden states of a text's tokens become one vector.
enum class PoolingKind { kFirst, kMean, kLast };

// A product behind the pooling: vector = act(matrix * vector + bias).
struct DenseConfig {
  std::string folder;  // which its tensors' names begin with
  int in = 0, out = 0;
  bool bias = true;
  bool tanh = true;  // act; else there is none
};

// The two tokens of which one is a generating model's answer to a question about two texts.
struct AnswerTokens {
  int no = 0, yes = 0;
};

// Of a model that answers with a vector instead of a text.
struct PoolingConfig {
  PoolingKind kind = PoolingKind::kMean;
  std::vector<DenseConfig> dense;  // one behind the other
  bool normalize = false;          // the vector has length 1
  // The vector is the logits of these, which are labels "no" and "yes".
  std::optional<AnswerTokens> answer;
};

struct ModelConfig {
  Architecture architecture = Architecture::kLlama;
  std::string name;  // for people; may be empty
  int vocab_size = 0;
  int hidden_size = 0;
  int num_layers = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int intermediate_size = 0;
  int context_length = 0;  // declared by the model, after scaling
  float norm_eps = 1e-5f;
  bool tied_embeddings = false;
  bool attention_bias = false;         // on q, k, v
  bool attention_output_bias = false;  // on o
  bool mlp_bias = false;
  bool logits_bias = false;  // on the output matrix
  QkNormKind qk_norm = QkNormKind::kNone;
  bool qk_norm_behind_rope = false;
  // The feed-forward part reads what the mixer reads, or with `parallel_norms` a norm of its own of
  // what the mixer's norm reads, and both are added to the residual stream.
  bool parallel_residual = false;
  bool parallel_norms = false;
  bool embedding_norm = false;  // of the tokens' embeddings, before the first layer
  // Positions are embedded by a table of so many rows, the first position by row `first_position`;
  // token types by a table of `token_types` rows. Zeros: there are no such tables.
  int position_rows = 0;
  int first_position = 0;
  int token_types = 0;
  int bias_buckets = 0;    // of scores by distance, the same in all layers: ops/attention.h
  bool plain_mlp = false;  // down(act(up(x))), without a gate
  // What attention gives is multiplied by the sigmoid of a gate, which q_proj computes beside each
  // head's query.
  bool attention_gate = false;
  // The softmax of each head counts one more score, which has no V: a weight of the layer.
  bool attention_sinks = false;
  ActivationKind activation = ActivationKind::kSilu;
  int sliding_window = 0;       // tokens a kWindow layer sees, itself included
  bool chunked_window = false;  // a kWindow layer sees from the last multiple of the window on
  // ALiBi: by head, what a score falls by for each position of distance; empty: there is none.
  std::vector<float> alibi_slopes;
  // In layers without RoPE queries grow with their position, as ops/attention.h says; 0: nowhere.
  int growth_tokens = 0;
  float growth_scale = 0.0f;
  float attention_scale = 0.0f;  // of q.k; always set (1 / sqrt(head_dim) where the file is silent)
  std::optional<float> attention_soft_cap;
  std::optional<float> logit_soft_cap;
  float embedding_scale = 1.0f;
  float residual_scale =
      1.0f;  // of what a mixer or a feed-forward part adds to the residual stream
  float logit_scale = 1.0f;
  float mlp_gate_scale = 1.0f;   // of the gate before its activation
  float mlp_inner_scale = 1.0f;  // of what the last product of a feed-forward part reads
  RopeConfig rope;
  RopeConfig local_rope;         // for layers with local_rope
  LinearAttentionConfig linear;  // zeros where no layer is kLinear, kMamba or kLightning
  ShortConvConfig short_conv;    // of kShortConv layers; zeros where there are none
  LatentConfig latent;           // zeros where attention keeps K and V
  ExpertsConfig experts;         // zeros where no layer has any
  LayerInputsConfig layer_inputs;
  AltUpConfig altup;
  // In the checkpoint: each guesses what follows the token that is drawn next.
  int mtp_heads = 0;
  std::vector<LayerConfig> layers;  // num_layers
  DType dtype = DType::kF32;        // of most weights
  std::optional<F8Quantization> quantization;
  std::optional<PoolingConfig> pooling;  // nothing: the model generates
  // Of a model that classifies: a text's vector has a number for each.
  std::vector<std::string> labels;
  // Of a draft whose output matrix is cut to some tokens: by row its token, each another; empty: a
  // row for each token of the vocabulary.
  std::vector<int32_t> target_ids;
  std::vector<int> eos_ids;  // of config and generation_config, without duplicates
  std::optional<int> bos_id;

  // Which layers of the checkpoint the parts of layer `i` are.
  int StoredMixer(int i) const {
    const LayerConfig& layer = layers[static_cast<size_t>(i)];
    return layer.stored >= 0 ? layer.stored : i;
  }
  int StoredMlp(int i) const {
    const LayerConfig& layer = layers[static_cast<size_t>(i)];
    return layer.stored_mlp >= 0 ? layer.stored_mlp : StoredMixer(i);
  }
  // The mixers of layer `i` and of the one before it read the same norm.
  bool BesideLast(int i) const { return i > 0 && StoredMixer(i) == StoredMixer(i - 1); }
  // Layers that the checkpoint has.
  int stored_layers() const { return layers.empty() ? 0 : StoredMlp(num_layers - 1) + 1; }
  // A text is computed in one step: its tokens see those behind them, or its vector is made of
  // several.
  bool whole_prompts() const { return pooling && pooling->kind != PoolingKind::kLast; }
  // Of a layer with attention.
  int kv_heads_of(const LayerConfig& layer) const {
    return layer.kv_heads > 0 ? layer.kv_heads : num_kv_heads;
  }
  int head_dim_of(const LayerConfig& layer) const {
    return layer.head_dim > 0 ? layer.head_dim : head_dim;
  }
  int mlp_width_of(const LayerConfig& layer) const {
    return layer.mlp_width > 0 ? layer.mlp_width : intermediate_size;
  }
  // Of the vector that a text becomes; 0: the model generates.
  int vector_size() const {
    if (!pooling) return 0;
    if (!labels.empty()) return static_cast<int>(labels.size());
    return pooling->dense.empty() ? hidden_size : pooling->dense.back().out;
  }
};

// generation_config.json or GGUF's sampling keys: defaults of a request that says nothing.
struct GenerationDefaults {
  std::optional<bool> do_sample;
  Sampling sampling;  // fields that a model may set
};

class GgufFile;
// kBadModel with one sentence that names the key, its value and what is legal.
Result<ModelConfig> ConfigFromGguf(const GgufFile& file);
Result<ModelConfig> ConfigFromJson(std::string_view config_json,
                                   std::string_view generation_config_json);
Result<GenerationDefaults> GenerationDefaultsFromGguf(const GgufFile& file);
Result<GenerationDefaults> GenerationDefaultsFromJson(std::string_view generation_config_json);

}  // namespace sluice::files
