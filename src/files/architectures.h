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
  int vocab, hidden, intermediate, layers, heads;
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

struct HfName {
  std::string_view class_name;  // in "architectures"
  std::string_view model_type;
};

// Which layers see a window and which have RoPE.
enum class LayerRule {
  kFull,            // all see everything; in GGUF a window may be given, and then all see it
  kWindow,          // all see the window, if one is given
  kSwitchedWindow,  // all see the window, if "use_sliding_window" is set; none in GGUF
  kUpperWindow,     // those above "max_window_layers", if "use_sliding_window" is set; none in GGUF
  kPeriodicWindow,  // all but every window_period-th
  kPeriodicRope,    // all but every fourth have RoPE
  kNoRope,          // all see everything, and none has RoPE
  kPeriodicLinear,  // all but every fourth have no attention but a state; none in GGUF
};

// What config.json says of biases; GGUF's tensors say it themselves.
enum class HfBiases {
  kNone,
  kAll,           // always on all matrices
  kQkv,           // always on Q, K and V
  kAttention,     // on Q, K, V and O where "attention_bias" is set
  kAttentionMlp,  // also in the MLP where "mlp_bias" is set
};

// How config.json tells of experts, and what a Hugging Face checkpoint calls them. In GGUF they are
// called the same for all.
enum class HfExperts {
  kNone,
  kEvery,   // every layer has "num_local_experts"; "block_sparse_moe.experts.0.w1"
  kSparse,  // those of "decoder_sparse_step" that "mlp_only_layers" does not name have
            // "num_experts" of "moe_intermediate_size"; "mlp.experts.0.gate_proj"
};

struct ArchitectureInfo {
  Architecture architecture;
  std::string_view name;           // ours
  std::array<HfName, 6> hf_names;  // those behind the first may be empty
  HfDefaults hf_defaults;
  std::string_view gguf_name;  // general.architecture; empty: not read from GGUF
  // GGUF's converter has permuted the rows of q and k, so that pairs of RoPE stand side by side.
  bool gguf_interleaved = false;
  // Every layer normalizes what its mixer and its feed-forward part read; with this also what they
  // give, before it is added to the residual stream.
  bool norms_after = false;
  bool layer_norms = false;  // LayerNorms with a bias instead of RMSNorms
  // The model embeds texts: every token sees the whole text, behind it too, positions have a table,
  // and what a layer adds to is what its norm gives rather than what that reads. Its feed-forward
  // part has no gate.
  bool encoder = false;
  // Of an encoder: the first position has the row behind that of padding, "pad_token_id".
  bool positions_behind_padding = false;
  LayerRule layers = LayerRule::kFull;
  int window_period = 0;    // kPeriodicWindow, where the file is silent
  bool local_rope = false;  // layers that see a window have a RoPE of their own
  HfBiases hf_biases = HfBiases::kNone;
  HfExperts hf_experts = HfExperts::kNone;
  // GGUF's metadata may tell of experts, whose weights then add up to 1.
  bool gguf_experts = false;
  bool qk_norm = false;
  // Norms of hidden states and of Q and K are stored as weight - 1 in Hugging Face checkpoints.
  bool hf_norms_add_one = false;
  bool attention_gate = false;  // ModelConfig::attention_gate
  // In both kinds of file Q, K and V are one tensor, gate and up another.
  bool fused = false;
  // The checkpoint may have heads that guess tokens, "num_nextn_predict_layers" of them.
  bool mtp_heads = false;
  // A Hugging Face checkpoint may have it as the text part of a multimodal model.
  bool in_multimodal = false;
};

// One row for each value of the enum, in its order.
std::span<const ArchitectureInfo> Architectures();
const ArchitectureInfo& InfoOf(Architecture architecture);

}  // namespace sluice::files
