#include "model/layers/param_list.h"

#include "base/str_cat.h"

namespace sluice::model::layers {

using weights::ParamRole;
using weights::ParamSpec;
using weights::SourceList;

ParamList::ParamList(const files::ModelConfig& config)
    : config_(config), info_(files::InfoOf(config.architecture)), prefixes_{{"model.", ""}} {
  if (info_.in_multimodal) {
    // As old and new transformers write it.
    prefixes_.push_back({"language_model.model.", "language_model."});
    prefixes_.push_back({"model.language_model.", ""});
  }
}

void ParamList::Embedding() {
  ParamSpec spec;
  spec.name = "embedding";
  spec.role = ParamRole::kEmbedding;
  spec.rows = config_.vocab_size;
  spec.columns = config_.hidden_size;
  for (const Prefix& prefix : prefixes_) {
    spec.hugging_face.push_back({{prefix.decoder + "embed_tokens.weight", spec.rows}});
  }
  spec.gguf = {{{"token_embd.weight", spec.rows}}};
  specs_.push_back(std::move(spec));
}

void ParamList::Output() {
  ParamSpec spec;
  spec.name = "output";
  spec.rows = config_.vocab_size;
  spec.columns = config_.hidden_size;
  for (const Prefix& prefix : prefixes_) {
    const std::string name = config_.tied_embeddings ? prefix.decoder + "embed_tokens.weight"
                                                     : prefix.output + "lm_head.weight";
    spec.hugging_face.push_back({{name, spec.rows}});
  }
  // llama.cpp's files tie by leaving the output matrix out.
  spec.gguf = {{{"output.weight", spec.rows}}, {{"token_embd.weight", spec.rows}}};
  spec.f32_out = true;  // the sampler's logits
  specs_.push_back(std::move(spec));
}

void ParamList::FinalNorm() {
  const auto add = [&](const char* name, const char* suffix) -> ParamSpec& {
    ParamSpec spec;
    spec.name = name;
    spec.role = ParamRole::kNorm;
    spec.rows = config_.hidden_size;
    for (const Prefix& prefix : prefixes_) {
      spec.hugging_face.push_back({{StrCat(prefix.decoder, "norm", suffix), spec.rows}});
    }
    spec.gguf = {{{StrCat("output_norm", suffix), spec.rows}}};
    specs_.push_back(std::move(spec));
    return specs_.back();
  };
  add("final_norm", ".weight").hugging_face_adds_one = info_.hf_norms_add_one;
  if (info_.layer_norms) add("final_norm_bias", ".bias");
}

ParamSpec& ParamList::Add(int i, std::string_view name, ParamRole role,
                          const std::vector<Piece>& pieces, int64_t columns,
                          std::string_view suffix) {
  ParamSpec spec;
  spec.name = StrCat("layers.", i, ".", name);
  spec.role = role;
  spec.columns = columns;
  spec.hugging_face.resize(prefixes_.size());
  spec.gguf.resize(1);
  for (const Piece& piece : pieces) {
    spec.rows += piece.rows;
    for (size_t p = 0; p < prefixes_.size(); ++p) {
      spec.hugging_face[p].push_back(
          {StrCat(prefixes_[p].decoder, "layers.", i, ".", piece.hugging_face, suffix), piece.rows,
           piece.pick});
    }
    spec.gguf[0].push_back({StrCat("blk.", i, ".", piece.gguf, suffix), piece.rows, piece.pick});
  }
  specs_.push_back(std::move(spec));
  return specs_.back();
}

void ParamList::Norm(int i, std::string_view name, std::string_view hugging_face,
                     std::string_view gguf) {
  const std::vector<Piece> pieces = {
      {std::string(hugging_face), std::string(gguf), config_.hidden_size}};
  Add(i, name, ParamRole::kNorm, pieces, 0, ".weight").hugging_face_adds_one =
      info_.hf_norms_add_one;
  if (info_.layer_norms) Add(i, StrCat(name, "_bias"), ParamRole::kNorm, pieces, 0, ".bias");
}

void ParamList::Qkv(int i) {
  const int64_t q = int64_t{config_.num_heads} * config_.head_dim;
  const int64_t kv = int64_t{config_.num_kv_heads} * config_.head_dim;
  std::vector<Piece> pieces =
      info_.fused ? std::vector<Piece>{{"self_attn.qkv_proj", "attn_qkv", q + 2 * kv}}
                  : std::vector<Piece>{{"self_attn.q_proj", "attn_q", q},
                                       {"self_attn.k_proj", "attn_k", kv},
                                       {"self_attn.v_proj", "attn_v", kv}};
  if (config_.attention_gate) {
    // Head by head the query's rows, then the gate's.
    const int64_t dim = config_.head_dim;
    pieces.push_back(pieces.front());
    pieces.front().pick = {config_.num_heads, 2 * dim, 0, dim};
    pieces.back().pick = {config_.num_heads, 2 * dim, dim, dim};
  }
  Add(i, "attention.qkv", ParamRole::kLinear, pieces, config_.hidden_size, ".weight").bias =
      config_.attention_bias;
  if (config_.attention_bias) {
    Add(i, "attention.qkv_bias", ParamRole::kBias, pieces, 0, ".bias");
  }
  if (config_.qk_norm) {
    Add(i, "attention.q_norm", ParamRole::kNorm,
        {{"self_attn.q_norm", "attn_q_norm", config_.head_dim}}, 0, ".weight")
        .hugging_face_adds_one = info_.hf_norms_add_one;
    Add(i, "attention.k_norm", ParamRole::kNorm,
        {{"self_attn.k_norm", "attn_k_norm", config_.head_dim}}, 0, ".weight")
        .hugging_face_adds_one = info_.hf_norms_add_one;
  }
}

void ParamList::AttentionOutput(int i) {
  const std::vector<Piece> pieces = {{"self_attn.o_proj", "attn_output", config_.hidden_size}};
  ParamSpec& spec = Add(i, "attention.output", ParamRole::kLinear, pieces,
                        int64_t{config_.num_heads} * config_.head_dim, ".weight");
  spec.residual = !info_.norms_after;
  spec.bias = config_.attention_output_bias;
  if (config_.attention_output_bias) {
    Add(i, "attention.output_bias", ParamRole::kBias, pieces, 0, ".bias");
  }
}

void ParamList::GatedDeltaNet(int i) {
  const files::LinearAttentionConfig& linear = config_.linear;
  const int64_t groups = linear.key_heads, shared = linear.value_heads / linear.key_heads;
  const int64_t key = linear.key_head_dim, value = shared * linear.value_head_dim;
  std::vector<Piece> pieces;
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
  Add(i, "linear.in", ParamRole::kLinear, pieces, config_.hidden_size, ".weight");
  Add(i, "linear.conv", ParamRole::kTaps, {{"linear_attn.conv1d", "", linear.channels()}},
      linear.conv_kernel, ".weight");
  Add(i, "linear.dt_bias", ParamRole::kNorm, {{"linear_attn.dt_bias", "", linear.value_heads}}, 0,
      "");
  Add(i, "linear.a_log", ParamRole::kNorm, {{"linear_attn.A_log", "", linear.value_heads}}, 0, "");
  Add(i, "linear.norm", ParamRole::kNorm, {{"linear_attn.norm", "", linear.value_head_dim}}, 0,
      ".weight");
  Add(i, "linear.output", ParamRole::kLinear, {{"linear_attn.out_proj", "", config_.hidden_size}},
      linear.value_width(), ".weight")
      .residual = !info_.norms_after;
}

std::vector<weights::ParamSpec> ParamList::Take() {
  // No GGUF file gets as far as this; what it would call them is not known here.
  if (info_.gguf_name.empty()) {
    for (ParamSpec& spec : specs_) spec.gguf.clear();
  }
  return std::move(specs_);
}

void ParamList::GateUp(int i) {
  const int64_t width = config_.intermediate_size;
  const std::vector<Piece> pieces =
      info_.fused ? std::vector<Piece>{{"mlp.gate_up_proj", "ffn_up", 2 * width}}
                  : std::vector<Piece>{{"mlp.gate_proj", "ffn_gate", width},
                                       {"mlp.up_proj", "ffn_up", width}};
  Add(i, "mlp.gate_up", ParamRole::kLinear, pieces, config_.hidden_size, ".weight").bias =
      config_.mlp_bias;
  if (config_.mlp_bias) Add(i, "mlp.gate_up_bias", ParamRole::kBias, pieces, 0, ".bias");
}

void ParamList::Down(int i) {
  const std::vector<Piece> pieces = {{"mlp.down_proj", "ffn_down", config_.hidden_size}};
  ParamSpec& spec =
      Add(i, "mlp.down", ParamRole::kLinear, pieces, config_.intermediate_size, ".weight");
  spec.residual = !info_.norms_after;
  spec.bias = config_.mlp_bias;
  if (config_.mlp_bias) Add(i, "mlp.down_bias", ParamRole::kBias, pieces, 0, ".bias");
}

}  // namespace sluice::model::layers
