#include "model/layers/param_list.h"

#include "base/str_cat.h"
#include "files/architectures.h"

namespace sluice::model::layers {

using weights::ParamRole;
using weights::ParamSpec;
using weights::SourceList;

ParamList::ParamList(const files::ModelConfig& config)
    : config_(config), fused_(files::InfoOf(config.architecture).fused), prefixes_{{"model.", ""}} {
  if (files::InfoOf(config.architecture).in_multimodal) {
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
  ParamSpec spec;
  spec.name = "final_norm";
  spec.role = ParamRole::kNorm;
  spec.rows = config_.hidden_size;
  spec.hugging_face_adds_one = norms_add_one_;
  for (const Prefix& prefix : prefixes_) {
    spec.hugging_face.push_back({{prefix.decoder + "norm.weight", spec.rows}});
  }
  spec.gguf = {{{"output_norm.weight", spec.rows}}};
  specs_.push_back(std::move(spec));
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
          {StrCat(prefixes_[p].decoder, "layers.", i, ".", piece.hugging_face, suffix),
           piece.rows});
    }
    spec.gguf[0].push_back({StrCat("blk.", i, ".", piece.gguf, suffix), piece.rows});
  }
  specs_.push_back(std::move(spec));
  return specs_.back();
}

void ParamList::Norm(int i, std::string_view name, std::string_view hugging_face,
                     std::string_view gguf) {
  Add(i, name, ParamRole::kNorm,
      {{std::string(hugging_face), std::string(gguf), config_.hidden_size}}, 0, ".weight")
      .hugging_face_adds_one = norms_add_one_;
}

void ParamList::Qkv(int i) {
  const int64_t q = int64_t{config_.num_heads} * config_.head_dim;
  const int64_t kv = int64_t{config_.num_kv_heads} * config_.head_dim;
  const std::vector<Piece> pieces =
      fused_ ? std::vector<Piece>{{"self_attn.qkv_proj", "attn_qkv", q + 2 * kv}}
             : std::vector<Piece>{{"self_attn.q_proj", "attn_q", q},
                                  {"self_attn.k_proj", "attn_k", kv},
                                  {"self_attn.v_proj", "attn_v", kv}};
  Add(i, "attention.qkv", ParamRole::kLinear, pieces, config_.hidden_size, ".weight").bias =
      config_.attention_bias;
  if (config_.attention_bias) {
    Add(i, "attention.qkv_bias", ParamRole::kBias, pieces, 0, ".bias");
  }
  if (config_.qk_norm) {
    Add(i, "attention.q_norm", ParamRole::kNorm,
        {{"self_attn.q_norm", "attn_q_norm", config_.head_dim}}, 0, ".weight")
        .hugging_face_adds_one = norms_add_one_;
    Add(i, "attention.k_norm", ParamRole::kNorm,
        {{"self_attn.k_norm", "attn_k_norm", config_.head_dim}}, 0, ".weight")
        .hugging_face_adds_one = norms_add_one_;
  }
}

void ParamList::AttentionOutput(int i, bool residual) {
  const std::vector<Piece> pieces = {{"self_attn.o_proj", "attn_output", config_.hidden_size}};
  ParamSpec& spec = Add(i, "attention.output", ParamRole::kLinear, pieces,
                        int64_t{config_.num_heads} * config_.head_dim, ".weight");
  spec.residual = residual;
  spec.bias = config_.attention_output_bias;
  if (config_.attention_output_bias) {
    Add(i, "attention.output_bias", ParamRole::kBias, pieces, 0, ".bias");
  }
}

void ParamList::GateUp(int i) {
  const int64_t width = config_.intermediate_size;
  const std::vector<Piece> pieces =
      fused_ ? std::vector<Piece>{{"mlp.gate_up_proj", "ffn_up", 2 * width}}
             : std::vector<Piece>{{"mlp.gate_proj", "ffn_gate", width},
                                  {"mlp.up_proj", "ffn_up", width}};
  Add(i, "mlp.gate_up", ParamRole::kLinear, pieces, config_.hidden_size, ".weight").bias =
      config_.mlp_bias;
  if (config_.mlp_bias) Add(i, "mlp.gate_up_bias", ParamRole::kBias, pieces, 0, ".bias");
}

void ParamList::Down(int i, bool residual) {
  const std::vector<Piece> pieces = {{"mlp.down_proj", "ffn_down", config_.hidden_size}};
  ParamSpec& spec =
      Add(i, "mlp.down", ParamRole::kLinear, pieces, config_.intermediate_size, ".weight");
  spec.residual = residual;
  spec.bias = config_.mlp_bias;
  if (config_.mlp_bias) Add(i, "mlp.down_bias", ParamRole::kBias, pieces, 0, ".bias");
}

}  // namespace sluice::model::layers
