#include "model/layers/decoder_params.h"

#include <string>
#include <string_view>
#include <utility>

#include "base/str_cat.h"
#include "files/architectures.h"

namespace sluice::model::layers {
namespace {

using weights::ParamRole;
using weights::ParamSpec;

// Collects the ParamSpecs in the spelling that Hugging Face checkpoints and GGUF files share, one
// call for each thing that a decoder has; names given here are ours. Where architectures differ in
// spelling, their row in files/architectures.cc says so.
class ParamList {
 public:
  explicit ParamList(const files::ModelConfig& config)
      : config_(config), info_(files::InfoOf(config.architecture)), prefixes_{{"model.", ""}} {
    if (info_.in_multimodal) {
      // As old and new transformers write it.
      prefixes_.push_back({"language_model.model.", "language_model."});
      prefixes_.push_back({"model.language_model.", ""});
    }
  }

  // Of a head of EAGLE-3's form, which stands alone in its checkpoint.
  explicit ParamList(const files::EagleConfig& eagle)
      : config_(eagle.layer),
        info_(files::InfoOf(config_.architecture)),
        prefixes_{{"", ""}, {"model.", ""}},
        head_layer_("midlayer.") {}

  void Embedding() {
    AddTop("embedding", ParamRole::kEmbedding, config_.vocab_size, config_.hidden_size,
           &Prefix::decoder, "embed_tokens.weight", "token_embd.weight");
  }

  // The output matrix: the embedding itself where the checkpoint ties them.
  void Output() {
    const bool tied = config_.tied_embeddings;
    ParamSpec& spec = AddTop("output", ParamRole::kLinear, config_.vocab_size, config_.hidden_size,
                             tied ? &Prefix::decoder : &Prefix::output,
                             tied ? "embed_tokens.weight" : "lm_head.weight", "output.weight");
    // llama.cpp's files tie by leaving the output matrix out.
    spec.gguf.push_back({{"token_embd.weight", spec.rows}});
    spec.f32_out = true;  // the sampler's logits
  }

  void FinalNorm() {
    AddTop("final_norm", ParamRole::kNorm, config_.hidden_size, 0, &Prefix::decoder, "norm.weight",
           "output_norm.weight")
        .hugging_face_adds_one = info_.hf_norms_add_one;
    if (!info_.layer_norms) return;
    AddTop("final_norm_bias", ParamRole::kNorm, config_.hidden_size, 0, &Prefix::decoder,
           "norm.bias", "output_norm.bias");
  }

  // A norm of the hidden state in layer `i`, with its bias where the architecture's have one.
  void Norm(int i, std::string_view name, std::string_view hugging_face, std::string_view gguf) {
    const Pieces pieces = {{std::string(hugging_face), std::string(gguf), config_.hidden_size}};
    AddNorm(i, name, pieces);
    if (info_.layer_norms) Add(i, StrCat(name, "_bias"), ParamRole::kNorm, pieces, 0, ".bias");
  }

  // "attention.qkv", the gate's rows behind V's where attention has one, with its biases and Q/K
  // norms where the config has them. `columns`: of what it reads.
  void Qkv(int i, int64_t columns) {
    const int64_t q = int64_t{config_.num_heads} * config_.head_dim;
    const int64_t kv = int64_t{config_.num_kv_heads} * config_.head_dim;
    Pieces pieces = info_.fused ? Pieces{{"self_attn.qkv_proj", "attn_qkv", q + 2 * kv}}
                                : Pieces{{"self_attn.q_proj", "attn_q", q},
                                         {"self_attn.k_proj", "attn_k", kv},
                                         {"self_attn.v_proj", "attn_v", kv}};
    if (config_.attention_gate) {
      // Head by head the query's rows, then the gate's.
      const int64_t dim = config_.head_dim;
      pieces.push_back(pieces.front());
      pieces.front().pick = {config_.num_heads, 2 * dim, 0, dim};
      pieces.back().pick = {config_.num_heads, 2 * dim, dim, dim};
    }
    Matrix(i, "attention.qkv", pieces, columns, config_.attention_bias);
    if (!config_.qk_norm) return;
    AddNorm(i, "attention.q_norm", {{"self_attn.q_norm", "attn_q_norm", config_.head_dim}});
    AddNorm(i, "attention.k_norm", {{"self_attn.k_norm", "attn_k_norm", config_.head_dim}});
  }

  void AttentionOutput(int i) {
    Matrix(i, "attention.output", {{"self_attn.o_proj", "attn_output", config_.hidden_size}},
           int64_t{config_.num_heads} * config_.head_dim, config_.attention_output_bias,
           !info_.norms_after);
  }

  // "linear.in", rows of queries, keys, values, gate, b, a; "linear.conv", "linear.dt_bias",
  // "linear.a_log", "linear.norm" and "linear.output".
  void GatedDeltaNet(int i) {
    const files::LinearAttentionConfig& linear = config_.linear;
    const int64_t groups = linear.key_heads, shared = linear.value_heads / linear.key_heads;
    const int64_t key = linear.key_head_dim, value = shared * linear.value_head_dim;
    Pieces pieces;
    // Of a matrix in which the rows of each key head lie together.
    const auto add = [&](const char* name, int64_t group_rows, int64_t begin, int64_t count) {
      pieces.push_back({StrCat("linear_attn.", name), "", groups * count,
                        weights::RowPick{groups, group_rows, begin, count}});
    };
    const int64_t rows = 2 * key + 2 * value;
    add("in_proj_qkvz", rows, 0, key);
    add("in_proj_qkvz", rows, key, key);
    add("in_proj_qkvz", rows, 2 * key, value);
    add("in_proj_qkvz", rows, 2 * key + value, value);
    add("in_proj_ba", 2 * shared, 0, shared);
    add("in_proj_ba", 2 * shared, shared, shared);
    Matrix(i, "linear.in", pieces, config_.hidden_size, false);
    Add(i, "linear.conv", ParamRole::kTaps, {{"linear_attn.conv1d", "", linear.channels()}},
        linear.conv_kernel, ".weight");
    const auto vector = [&](const char* name, const char* source, int64_t size,
                            const char* suffix) {
      Add(i, name, ParamRole::kNorm, {{source, "", size}}, 0, suffix);
    };
    vector("linear.dt_bias", "linear_attn.dt_bias", linear.value_heads, "");
    vector("linear.a_log", "linear_attn.A_log", linear.value_heads, "");
    vector("linear.norm", "linear_attn.norm", linear.value_head_dim, ".weight");
    Matrix(i, "linear.output", {{"linear_attn.out_proj", "", config_.hidden_size}},
           linear.value_width(), false, !info_.norms_after);
  }

  // "mlp.gate_up": gate rows, then up rows.
  void GateUp(int i) {
    const int64_t width = config_.intermediate_size;
    const Pieces pieces = info_.fused ? Pieces{{"mlp.gate_up_proj", "ffn_up", 2 * width}}
                                      : Pieces{{"mlp.gate_proj", "ffn_gate", width},
                                               {"mlp.up_proj", "ffn_up", width}};
    Matrix(i, "mlp.gate_up", pieces, config_.hidden_size, config_.mlp_bias);
  }

  void Down(int i) {
    Matrix(i, "mlp.down", {{"mlp.down_proj", "ffn_down", config_.hidden_size}},
           config_.intermediate_size, config_.mlp_bias, !info_.norms_after);
  }

  // "join": from the normed hidden state, then the normed embedding, to the head's residual stream.
  void Join(int i) {
    Add(i, "join", ParamRole::kLinear, {{"input_proj", "", config_.hidden_size}},
        2 * int64_t{config_.hidden_size}, ".weight")
        .begins_residual = true;
  }

  // "fc": from hidden states of the model side by side to the head's residual stream.
  void JoinLayers(int64_t columns) {
    AddTop("fc", ParamRole::kLinear, config_.hidden_size, columns, &Prefix::decoder, "fc.weight",
           "")
        .begins_residual = true;
  }

  // The output matrix of the tokens that a head guesses.
  void OutputOf(int64_t tokens) {
    AddTop("output", ParamRole::kLinear, tokens, config_.hidden_size, &Prefix::output,
           "lm_head.weight", "")
        .f32_out = true;
  }

  // "experts.router"; "experts.gate_up", of each expert its gate rows, then its up rows; and
  // "experts.down".
  void Experts(int i) {
    const files::ExpertsConfig& experts = config_.experts;
    const bool mixtral = info_.hf_experts == files::HfExperts::kEvery;
    const std::string block = mixtral ? "block_sparse_moe." : "mlp.";
    Matrix(i, "experts.router", {{block + "gate", "ffn_gate_inp", experts.count}},
           config_.hidden_size, false);
    specs_.back().f32_out = true;  // so that no token takes another expert by a rounding
    const auto name = [&](const char* of_mixtral, const char* of_others) {
      return mixtral ? of_mixtral : of_others;
    };
    const int64_t width = experts.width, hidden = config_.hidden_size;
    AddExperts(i, "experts.gate_up", block,
               {{name("w1", "gate_proj"), "ffn_gate_exps", width},
                {name("w3", "up_proj"), "ffn_up_exps", width}},
               hidden);
    AddExperts(i, "experts.down", block, {{name("w2", "down_proj"), "ffn_down_exps", hidden}},
               width);
    specs_.back().f32_out = true;  // what experts give is added up in F32
  }

  std::vector<ParamSpec> Take() {
    // No GGUF file gets as far as this; what it would call them is not known here.
    if (info_.gguf_name.empty()) {
      for (ParamSpec& spec : specs_) spec.gguf.clear();
    }
    return std::move(specs_);
  }

 private:
  // Where a Hugging Face checkpoint may keep the decoder and the output matrix.
  struct Prefix {
    std::string decoder;  // "model."
    std::string output;
  };
  struct Piece {
    std::string hugging_face, gguf;  // within the layer, without ".weight" or ".bias"
    int64_t rows = 0;
    weights::RowPick pick = {};
  };
  using Pieces = std::vector<Piece>;

  // Adds what stands outside the layers.
  ParamSpec& AddTop(const char* name, ParamRole role, int64_t rows, int64_t columns,
                    std::string Prefix::*prefix, const char* hugging_face, const char* gguf) {
    ParamSpec& spec = specs_.emplace_back();
    spec.name = name;
    spec.role = role;
    spec.rows = rows;
    spec.columns = columns;
    for (const Prefix& p : prefixes_)
      spec.hugging_face.push_back({{p.*prefix + hugging_face, rows}});
    spec.gguf = {{{gguf, rows}}};
    return spec;
  }

  // What a Hugging Face checkpoint calls layer `i`; behind the last one come the heads.
  std::string CheckpointLayer(int i) const {
    const int heads_from = config_.num_layers;
    if (i < heads_from) return StrCat("layers.", i, ".");
    return head_layer_.empty() ? StrCat("mtp_layers.", i - heads_from, ".") : head_layer_;
  }

  // Adds a matrix or vector of layer `i` made of `pieces`.
  ParamSpec& Add(int i, std::string_view name, ParamRole role, const Pieces& pieces,
                 int64_t columns, std::string_view suffix) {
    ParamSpec& spec = specs_.emplace_back();
    spec.name = StrCat("layers.", i, ".", name);
    spec.role = role;
    spec.columns = columns;
    spec.hugging_face.resize(prefixes_.size());
    spec.gguf.resize(1);
    for (const Piece& piece : pieces) {
      spec.rows += piece.rows;
      for (size_t p = 0; p < prefixes_.size(); ++p) {
        spec.hugging_face[p].push_back(
            {StrCat(prefixes_[p].decoder, CheckpointLayer(i), piece.hugging_face, suffix),
             piece.rows, piece.pick});
      }
      spec.gguf[0].push_back({StrCat("blk.", i, ".", piece.gguf, suffix), piece.rows, piece.pick});
    }
    return spec;
  }

  void AddNorm(int i, std::string_view name, const Pieces& pieces) {
    Add(i, name, ParamRole::kNorm, pieces, 0, ".weight").hugging_face_adds_one =
        info_.hf_norms_add_one;
  }

  // Adds a matrix that a product is taken with, and its bias where it has one.
  void Matrix(int i, std::string_view name, const Pieces& pieces, int64_t columns, bool bias,
              bool residual = false) {
    ParamSpec& spec = Add(i, name, ParamRole::kLinear, pieces, columns, ".weight");
    spec.bias = bias;
    spec.residual = residual;
    if (bias) Add(i, StrCat(name, "_bias"), ParamRole::kBias, pieces, 0, ".bias");
  }

  // Adds matrices of all experts of layer `i`. A Hugging Face checkpoint has each expert's `pieces`
  // apart, GGUF one tensor of all experts for each piece.
  void AddExperts(int i, std::string_view name, const std::string& block, const Pieces& pieces,
                  int64_t columns) {
    const int64_t experts = config_.experts.count;
    ParamSpec& spec = specs_.emplace_back();
    spec.name = StrCat("layers.", i, ".", name);
    spec.role = ParamRole::kExperts;
    spec.columns = columns;
    spec.experts = config_.experts.count;
    for (const Piece& piece : pieces) spec.rows += experts * piece.rows;
    weights::SourceList gguf;
    for (int64_t e = 0; e < experts; ++e) {
      for (const Piece& piece : pieces) {
        const weights::RowPick pick = {1, experts * piece.rows, e * piece.rows, piece.rows};
        gguf.push_back({StrCat("blk.", i, ".", piece.gguf, ".weight"), piece.rows, pick});
      }
    }
    spec.gguf = {std::move(gguf)};
    for (const Prefix& prefix : prefixes_) {
      const std::string layer = StrCat(prefix.decoder, "layers.", i, ".");
      weights::SourceList apart;
      for (int64_t e = 0; e < experts; ++e) {
        for (const Piece& piece : pieces) {
          apart.push_back({StrCat(layer, block, "experts.", e, ".", piece.hugging_face, ".weight"),
                           piece.rows});
        }
      }
      spec.hugging_face.push_back(std::move(apart));
    }
  }

  const files::ModelConfig& config_;
  const files::ArchitectureInfo& info_;
  std::vector<Prefix> prefixes_;  // in order of preference
  const std::string head_layer_;  // where the layer of a head stands; empty: behind the model's
  std::vector<ParamSpec> specs_;
};

void AddLayer(const files::ModelConfig& config, int i, const files::LayerConfig& layer,
              ParamList* list) {
  // Checkpoints call the norm before the feed-forward part "post_attention" where none stands after
  // the attention.
  const bool after = files::InfoOf(config.architecture).norms_after;
  list->Norm(i, "input_norm", "input_layernorm", "attn_norm");
  if (layer.kind == files::LayerKind::kLinear) {
    list->GatedDeltaNet(i);
  } else {
    list->Qkv(i, config.hidden_size);
    list->AttentionOutput(i);
  }
  if (after) {
    list->Norm(i, "attention_post_norm", "post_attention_layernorm", "post_attention_norm");
  }
  if (!config.parallel_residual) {
    list->Norm(i, "mlp_norm", after ? "pre_feedforward_layernorm" : "post_attention_layernorm",
               "ffn_norm");
  }
  if (layer.experts) {
    list->Experts(i);
  } else {
    list->GateUp(i);
    list->Down(i);
  }
  if (after) list->Norm(i, "mlp_post_norm", "post_feedforward_layernorm", "post_ffw_norm");
}

}  // namespace

std::vector<weights::ParamSpec> DecoderParams(const files::ModelConfig& config, bool mtp_head) {
  ParamList list(config);
  list.Embedding();
  for (int i = 0; i < config.num_layers; ++i) AddLayer(config, i, config.layers[i], &list);
  list.FinalNorm();
  list.Output();
  if (mtp_head) {
    const int head = config.num_layers;
    list.Norm(head, "hidden_norm", "hidden_layernorm", "");
    list.Norm(head, "token_norm", "token_layernorm", "");
    list.Join(head);
    AddLayer(config, head, files::LayerConfig(), &list);
    list.Norm(head, "final_norm", "final_layernorm", "");
  }
  return list.Take();
}

std::vector<weights::ParamSpec> EagleParams(const files::EagleConfig& config) {
  constexpr int kLayer = 0;
  const int64_t hidden = config.layer.hidden_size;
  ParamList list(config);
  if (config.own_embedding) list.Embedding();
  list.JoinLayers(int64_t{files::kEagleLayers} * config.target_hidden_size);
  list.Norm(kLayer, "token_norm", "input_layernorm", "");
  list.Norm(kLayer, "hidden_norm", "hidden_norm", "");
  list.Qkv(kLayer, 2 * hidden);
  list.AttentionOutput(kLayer);
  list.Norm(kLayer, "mlp_norm", "post_attention_layernorm", "");
  list.GateUp(kLayer);
  list.Down(kLayer);
  list.FinalNorm();
  list.OutputOf(config.draft_vocab_size);
  return list.Take();
}

}  // namespace sluice::model::layers
