// The table of architectures: what they are called, by us and in both kinds of file, and what holds
// where the file is silent. The enum stands in model_config.h. Any thread.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "files/model_config.h"

namespace sluice::files {

// What transformers 5.23 takes for a key that config.json does not have.
struct HfDefaults {
  int vocab, hidden;
  int intermediate = 0;  // 0: four times hidden
  int layers, heads;
  int kv_heads = 0;  // 0: as many as heads
  int head_dim = 0;  // 0: hidden / heads
  int context;
  float norm_eps = 1e-6f;
  float rope_theta = 10000.0f;
  double rotary_portion = 1.0;   // of a head's dimensions
  int window = 0;                // 0: none
  int bos_id = -1, eos_id = -1;  // -1: none
  bool tied = false;
  int experts = 0, experts_per_token = 0, expert_width = 0;  // 0: as intermediate
};

// What config.json calls some of what every model has.
struct HfKeys {
  std::string_view norm_eps = "rms_norm_eps";
  std::string_view activation = "hidden_act";  // empty: config.json does not say
  // What it may call sizes beside their usual names; empty: nothing else.
  std::string_view hidden, intermediate, layers, heads, kv_heads, context;
};

struct HfName {
  std::string_view class_name;  // in "architectures"
  std::string_view model_type;
};

// Which layers see a window and which have RoPE.
enum class LayerRule {
  kFull,            // all see everything; in GGUF a window may be given, and then all see it
  kWindow,          // all see the window, if one is given
  kSwitchedWindow,  // if "use_sliding_window" is set all see it, of Qwen2-MoE some; none in GGUF
  kUpperWindow,     // those above "max_window_layers", if "use_sliding_window" is set; none in GGUF
  kPeriodicWindow,  // all but every window_period-th
  kPeriodicRope,    // all but every fourth have RoPE
  kPeriodicChunks,  // all but every fourth have RoPE and see chunks; the others' queries may grow
  kNoRope,          // all see everything, and none has RoPE
  kPeriodicLinear,  // all but every fourth have no attention but a state; none in GGUF
  kShortConv,       // those that "layer_types" or "full_attn_idxs" does not name, and in GGUF those
                    // without KV heads, have no attention but a short convolution
  kMamba,           // no layer has attention or a feed-forward part
  kMambaHybrid,     // those that "layer_types" does not give attention, and in GGUF those without
                    // KV heads, are of Mamba-2
  kMambaPeriodic,   // all but those of "attn_layer_period" and "attn_layer_offset", and in GGUF
                    // those without KV heads, are of Mamba; those of "expert_layer_period" and
                    // "expert_layer_offset" have experts; none has RoPE
  kMambaPattern,  // each is a mixer, of Mamba-2 or attention, or a feed-forward part, with experts
                  // or without, as a list or a text of letters says; none has RoPE
  kMambaBeside,   // each has attention and Mamba-2 side by side
  kLightning,     // those that "layer_types" calls linear, or every other one; none in GGUF
  kLocal,         // all but the first of every third see a window, which reaches to both sides
};

// The key of config.json that says whether some products have a bias, and what holds without it.
struct HfBias {
  std::string_view key;  // empty: config.json does not say
  bool otherwise = false;
};

// Which biases a Hugging Face checkpoint has; GGUF's tensors say it themselves.
struct HfBiases {
  HfBias qkv, output;  // of attention
  HfBias mlp;
  bool logits = false;  // the output matrix has one
};

// What a Hugging Face checkpoint calls its tensors, without ".weight" and ".bias".
struct HfTensors {
  std::string_view decoder = "model.";  // stands before all but the output matrix
  std::string_view embedding = "embed_tokens", final_norm = "norm", logits = "lm_head";
  std::string_view positions = "wpe", embedding_norm = "word_embeddings_layernorm";
  std::string_view layers = "layers.";
  // In "layers.0.". Where no norm stands behind attention, "post_attention_layernorm" is the one
  // before the feed-forward part.
  std::string_view input_norm = "input_layernorm", mlp_norm = "post_attention_layernorm";
  std::string_view attention_post_norm = "post_attention_layernorm";
  std::string_view mlp_post_norm = "post_feedforward_layernorm";
  std::string_view q = "self_attn.q_proj", k = "self_attn.k_proj", v = "self_attn.v_proj";
  std::string_view q_norm = "self_attn.q_norm", k_norm = "self_attn.k_norm";
  std::string_view qkv = "self_attn.qkv_proj", attention_output = "self_attn.o_proj";
  std::string_view mamba = "mamba.";  // before the names of a layer of Mamba-2
  std::string_view gate = "mlp.gate_proj", up = "mlp.up_proj", gate_up = "mlp.gate_up_proj";
  std::string_view down = "mlp.down_proj";
  // Instead of the first two norms, with ModelConfig::parallel_norms; empty: the same.
  std::string_view parallel_input_norm, parallel_mlp_norm;
};

// Where a layer normalizes.
enum class NormPlaces {
  kBefore,  // what its mixer and its feed-forward part read
  kAround,  // that, and what they give, before it is added to the residual stream
  kAfter,   // what they give, alone
};

enum class ModelNorm {
  kRms,
  kLayer,        // with a bias
  kLayerNoBias,  // LayerNorm without one
};

// How Q, K and V lie in a checkpoint.
enum class QkvLayout {
  kApart,    // three tensors
  kStacked,  // one: all of Q, then K, then V
  kByHead,   // one: of each KV head its queries, then its K, then its V
};

// Which layers have experts, by config.json.
enum class ExpertLayers {
  kNone,
  kEvery,
  kSparse,       // those of "decoder_sparse_step" that "mlp_only_layers" does not name
  kNamed,        // those that the rule of layers has found
  kBehindDense,  // all but the first "first_k_dense_replace"
  kInterleaved,  // those of "moe_layers", or every "interleave_moe_layer_step"-th
  kBetween,      // every "moe_layer_interval"-th from "moe_layer_start_index" to
                 // "moe_layer_end_index"
};

// How config.json tells of experts, and what a Hugging Face checkpoint calls them. In GGUF they are
// called the same for all.
struct HfExperts {
  ExpertLayers layers = ExpertLayers::kNone;
  bool renormalize = false;  // where "norm_topk_prob" is absent
  RouterScore score = RouterScore::kSoftmax;
  std::string_view width_key = "moe_intermediate_size";
  // In the layer: what stands before all names but those of the shared expert, the router, the bias
  // on its scores (empty: none), and an expert's matrices in "experts.0.".
  std::string_view block = "mlp.", router = "gate", bias;
  std::string_view gate = "gate_proj", up = "up_proj", down = "down_proj";
  // Two tensors have all experts instead: of each its gate's rows, then those of up; and down.
  std::string_view stacked_gate_up, stacked_down;
  bool stacked_bare = false;  // in tensors of that very name, without ".weight"
  // They lie as columns, [experts, columns, rows], in tensors of that very name.
  bool transposed = false;
  bool interleaved = false;     // rows of gate and up take turns
  bool product_biases = false;  // ExpertsConfig::product_biases, in "gate_up_bias", "down_bias"
  bool weighs_inputs = false;   // ExpertsConfig::weighs_inputs
  int dense_layers = 1;         // kBehindDense, where config.json is silent
  std::string_view dense_layers_key = "first_k_dense_replace";
  std::string_view bias_switch;  // the key that says whether there is a bias; empty: there is
  // A shared expert is as wide as several of the router's, which config.json may count by this key;
  // it is silent: so many. 0: config.json tells the shared expert's width.
  std::string_view shared_count_key = "n_shared_experts";
  int shared_count = 0;
  // The shared expert (empty: none) and the gate on it (empty: none).
  std::string_view shared, shared_gate;
};

// Keys of config.json that scale what flows through the model.
enum class HfScales {
  kNone,
  kGemma,     // "query_pre_attn_scalar", caps; the embedding by the root of its width
  kGranite,   // "embedding_multiplier", "attention_multiplier", "residual_multiplier"; logits are
              // divided by "logits_scaling"
  kCohere,    // logits are multiplied by "logit_scale"
  kGemma4,    // as kGemma, but scores are not scaled; Gemma 3n's, too
  kFalconH1,  // "embedding_multiplier", "lm_head_multiplier" and those of every part of a layer
};

// Whether scores fall with the distance (ALiBi) instead of rotating Q and K.
enum class AlibiRule {
  kNever,
  kAlways,
  kSwitched,    // if "alibi" is set; what is subtracted is scaled as scores are
  kAttnConfig,  // if "attn_config" says so, by "alibi_bias_max"
  kBySize,      // where config.json has no "max_position_embeddings"; in GGUF by published sizes
};

struct ArchitectureInfo {
  Architecture architecture;
  std::string_view name;           // ours
  std::array<HfName, 6> hf_names;  // those behind the first may be empty
  HfDefaults hf_defaults;
  std::string_view gguf_name;                   // general.architecture; empty: not read from GGUF
  std::string_view gguf_experts_name;           // the same of a model with experts; empty: the same
  std::string_view gguf_mlp_norm = "ffn_norm";  // GGUF's name of the norm before the MLP
  std::string_view gguf_final_norm = "output_norm";
  // GGUF's converter has permuted the rows of q and k, so that pairs of RoPE stand side by side.
  bool gguf_interleaved = false;
  bool hf_interleaved = false;  // pairs of RoPE stand side by side in Hugging Face checkpoints
  HfKeys hf_keys = {};
  HfTensors hf_tensors = {};
  NormPlaces norm_places = NormPlaces::kBefore;
  ModelNorm norm = ModelNorm::kRms;
  // The model embeds texts: every token sees the whole text, behind it too. Where no layer has
  // RoPE, positions have a table.
  bool encoder = false;
  bool token_types = false;  // of an encoder: they have a table
  // What a layer adds to is what its norm gives rather than what that reads.
  bool adds_to_normed = false;
  // Of an encoder: the first position has the row behind that of padding, "pad_token_id".
  bool positions_behind_padding = false;
  LayerRule layers = LayerRule::kFull;
  int window_period = 0;               // kPeriodicWindow, where the file is silent
  bool local_rope = false;             // layers that see a window have a RoPE of their own
  bool rope_in_windows_alone = false;  // where some layers see a window, the others have no RoPE
  HfBiases hf_biases = {};
  HfExperts hf_experts = {};
  // GGUF's metadata may tell of experts, whose weights then add up to 1.
  bool gguf_experts = false;
  bool gguf_plain_weights = false;  // not so: they stay as the router gives them
  QkNormKind qk_norm = QkNormKind::kNone;
  std::string_view hf_qk_norm_key;  // config.json has to ask for them by it; empty: they are there
  // Norms of hidden states and of Q and K are stored as weight - 1 in Hugging Face checkpoints.
  bool hf_norms_add_one = false;
  bool qk_norm_behind_rope = false;  // ModelConfig::qk_norm_behind_rope
  // Each head of V has a norm without weights.
  bool v_norm = false;
  // What a layer leaves in the residual stream is multiplied by a weight of its own.
  bool layer_scales = false;
  // ModelConfig::embedding_norm. Of an encoder it is also what the first layer reads.
  bool embedding_norm = false;
  // Positions have a table, as many rows as the context is long, whose rows are added to the
  // tokens'.
  bool position_table = false;
  AlibiRule alibi = AlibiRule::kNever;
  bool attention_gate = false;   // ModelConfig::attention_gate
  bool attention_sinks = false;  // ModelConfig::attention_sinks
  LatentConfig latent = {};      // where config.json is silent; none in GGUF
  // Layers of Mamba are of its first form: LinearAttentionConfig::step_rank.
  bool first_mamba = false;
  ScanNorms scan_norms = ScanNorms::kNone;
  // Of layers with a state: the rows of queries, keys, values, gate and step sizes lie apart in a
  // Hugging Face checkpoint instead of key head by key head.
  bool linear_apart = false;
  QkvLayout qkv = QkvLayout::kApart, gguf_qkv = QkvLayout::kApart;
  // config.json gives the width of a feed-forward part without a gate, and rules of its own for the
  // narrower one with a gate.
  bool feed_forward_shrinks = false;
  bool hf_transposed = false;        // matrices of layers lie as columns, [columns, rows]
  bool gate_up_stacked = false;      // one tensor has the gate's rows, then those of up
  bool gguf_gate_up_apart = false;   // not so in GGUF, nor of an expert that every token takes
  bool plain_mlp = false;            // ModelConfig::plain_mlp
  bool parallel_residual = false;    // where the file is silent
  bool parallel_norms = false;       // ModelConfig::parallel_norms, where blocks are parallel
  std::string_view hf_parallel_key;  // says whether blocks are parallel; empty: they always are so
  // config.json says by "new_decoder_architecture", "multi_query", "parallel_attn" and
  // "num_ln_in_parallel_attn" how K and V are shared, and which blocks and norms are parallel.
  bool falcon_switches = false;
  // A vocabulary that tells of rows of the output matrix that are to be normalized first, which is
  // not supported. 0: none.
  int normalized_head_vocab = 0;
  ActivationKind activation = ActivationKind::kSilu;  // where the file is silent
  HfScales hf_scales = HfScales::kNone;
  // The checkpoint may have heads that guess tokens, "num_nextn_predict_layers" of them.
  bool mtp_heads = false;
  // A Hugging Face checkpoint may have it as the text part of a multimodal model.
  bool in_multimodal = false;
};

// One row for each value of the enum, in its order.
std::span<const ArchitectureInfo> Architectures();
const ArchitectureInfo& InfoOf(Architecture architecture);

}  // namespace sluice::files
