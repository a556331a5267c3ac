#include "model/layers/encoder_params.h"

#include <string>
#include <string_view>
#include <utility>

#include "base/str_cat.h"
#include "files/architectures.h"
#include "model/layers/pooling_params.h"

namespace sluice::model::layers {
namespace {

using files::Architecture;
using weights::ParamRole;
using weights::ParamSpec;

// Where a Hugging Face checkpoint may keep the encoder: alone, or within a model that has a head.
constexpr std::string_view kPrefixes[] = {"", "bert.", "roberta.", "mpnet.", "model."};

// What an architecture's checkpoints of Hugging Face call tensors, without ".weight" and ".bias".
struct Names {
  std::string_view embedding = "embeddings.word_embeddings";
  std::string_view embedding_norm = "embeddings.LayerNorm";
  std::string_view layers = "encoder.layer.";
  // In "encoder.layer.0.". Where Q, K and V lie in one matrix, or gate and up, its name is the
  // first.
  std::string_view q = "attention.self.query", k = "attention.self.key", v = "attention.self.value";
  std::string_view attention_output = "attention.output.dense";
  std::string_view attention_norm = "attention.output.LayerNorm", mlp_norm = "output.LayerNorm";
  std::string_view gate, up = "intermediate.dense", down = "output.dense";
};

constexpr Names kMPNetNames = {.q = "attention.attn.q",
                               .k = "attention.attn.k",
                               .v = "attention.attn.v",
                               .attention_output = "attention.attn.o",
                               .attention_norm = "attention.LayerNorm"};
constexpr Names kNomicNames = {.embedding_norm = "emb_ln",
                               .layers = "encoder.layers.",
                               .q = "attn.Wqkv",
                               .k = "",
                               .v = "",
                               .attention_output = "attn.out_proj",
                               .attention_norm = "norm1",
                               .mlp_norm = "norm2",
                               .gate = "mlp.fc12",
                               .up = "mlp.fc11",
                               .down = "mlp.fc2"};
// Norms stand before what they are called after.
constexpr Names kModernBertNames = {.embedding = "embeddings.tok_embeddings",
                                    .embedding_norm = "embeddings.norm",
                                    .layers = "layers.",
                                    .q = "attn.Wqkv",
                                    .k = "",
                                    .v = "",
                                    .attention_output = "attn.Wo",
                                    .attention_norm = "attn_norm",
                                    .mlp_norm = "mlp_norm",
                                    .gate = "mlp.Wi",
                                    .up = "",
                                    .down = "mlp.Wo"};

const Names& NamesOf(Architecture architecture) {
  static constexpr Names kBertNames;
  if (architecture == Architecture::kMPNet) return kMPNetNames;
  if (architecture == Architecture::kNomicBert) return kNomicNames;
  return architecture == Architecture::kModernBert ? kModernBertNames : kBertNames;
}

// Collects the ParamSpecs in the spelling of checkpoints and of GGUF; names given here are ours.
class ParamList {
 public:
  struct Piece {
    std::string hugging_face, gguf;  // without ".weight" or ".bias"
    int64_t rows = 0;
  };
  using Pieces = std::vector<Piece>;

  explicit ParamList(const files::ModelConfig& config)
      : config_(config),
        info_(files::InfoOf(config.architecture)),
        names_(NamesOf(config.architecture)) {}

  void Table(std::string_view name, std::string_view hugging_face, std::string_view gguf,
             int64_t rows) {
    if (rows == 0) return;
    Add(name, ParamRole::kEmbedding, {{std::string(hugging_face), std::string(gguf), rows}},
        config_.hidden_size, ".weight");
  }

  void Tables() {
    Table("embedding", names_.embedding, "token_embd", config_.vocab_size);
    Table("position_embedding", "embeddings.position_embeddings", "position_embd",
          config_.position_rows);
    Table("type_embedding", "embeddings.token_type_embeddings", "token_types", config_.token_types);
    if (config_.bias_buckets == 0) return;
    Add("attention_bias", ParamRole::kTable,
        {{"encoder.relative_attention_bias", "", config_.bias_buckets}}, config_.num_heads,
        ".weight");
  }

  void Norm(std::string_view name, std::string hugging_face, std::string gguf) {
    const Pieces pieces = {{std::move(hugging_face), std::move(gguf), config_.hidden_size}};
    Add(name, ParamRole::kNorm, pieces, 0, ".weight");
    if (info_.norm != files::ModelNorm::kLayer) return;
    Add(StrCat(name, "_bias"), ParamRole::kNorm, pieces, 0, ".bias");
  }

  // A matrix that a product is taken with, and its bias. `stacked`: GGUF may have its rows in one
  // tensor of that name; empty: it has not.
  void Matrix(std::string_view name, const Pieces& pieces, int64_t columns, bool bias,
              bool residual = false, const std::string& stacked = "") {
    Stack(Add(name, ParamRole::kLinear, pieces, columns, ".weight"), stacked, ".weight");
    specs_.back().bias = bias;
    specs_.back().residual = residual;
    if (!bias) return;
    Stack(Add(StrCat(name, "_bias"), ParamRole::kBias, pieces, 0, ".bias"), stacked, ".bias");
  }

  void Layer(int i) {
    const std::string name = StrCat("layers.", i, ".");
    const std::string hf = StrCat(names_.layers, i, "."), gguf = StrCat("blk.", i, ".");
    const int64_t hidden = config_.hidden_size, inner = config_.intermediate_size;
    InputNorm(i);
    Pieces qkv = {{StrCat(hf, names_.q), gguf + "attn_qkv", 3 * hidden}};
    if (!names_.k.empty()) {
      qkv = {{StrCat(hf, names_.q), gguf + "attn_q", hidden},
             {StrCat(hf, names_.k), gguf + "attn_k", hidden},
             {StrCat(hf, names_.v), gguf + "attn_v", hidden}};
    }
    Matrix(name + "attention.qkv", qkv, hidden, config_.attention_bias, false,
           names_.k.empty() ? "" : gguf + "attn_qkv");
    Matrix(name + "attention.output",
           {{StrCat(hf, names_.attention_output), gguf + "attn_output", hidden}}, hidden,
           config_.attention_output_bias, true);
    Norm(name + "mlp_norm",
         StrCat(hf, info_.adds_to_normed ? names_.attention_norm : names_.mlp_norm),
         gguf + "attn_output_norm");
    const Piece up = {StrCat(hf, names_.up), gguf + "ffn_up", inner};
    const Piece gate = {StrCat(hf, names_.gate), gguf + "ffn_gate", inner};
    if (config_.plain_mlp) {
      Matrix(name + "mlp.up", {up}, hidden, config_.mlp_bias);
    } else if (names_.up.empty()) {
      Matrix(name + "mlp.gate_up", {{gate.hugging_face, "", 2 * inner}}, hidden, config_.mlp_bias);
    } else {
      Matrix(name + "mlp.gate_up", {gate, up}, hidden, config_.mlp_bias);
    }
    Matrix(name + "mlp.down", {{StrCat(hf, names_.down), gguf + "ffn_down", hidden}}, inner,
           config_.mlp_bias, true);
  }

  void FinalNorm() {
    const Piece last =
        info_.adds_to_normed ? LastNorm(config_.num_layers) : Piece{"final_norm", "output_norm", 0};
    Norm("final_norm", last.hugging_face, last.gguf);
  }

  std::vector<ParamSpec> Take() {
    AddPoolingParams(config_, kPrefixes, &specs_);
    // As in decoder_params.cc.
    if (info_.gguf_name.empty()) {
      for (ParamSpec& spec : specs_) spec.gguf.clear();
    }
    return std::move(specs_);
  }

 private:
  // What layer `i` reads first. Where layers add to what is normed, that is the norm of the layer
  // before it, or of the embeddings.
  void InputNorm(int i) {
    const std::string name = StrCat("layers.", i, ".input_norm");
    if (info_.adds_to_normed) {
      const Piece last = LastNorm(i);
      Norm(name, last.hugging_face, last.gguf);
    } else if (i == 0) {
      Norm("embedding_norm", std::string(names_.embedding_norm), "token_embd_norm");
    } else {
      Norm(name, StrCat(names_.layers, i, ".", names_.attention_norm),
           StrCat("blk.", i, ".attn_norm"));
    }
  }

  // The norm that stands before layer `i`, of the layer before it.
  Piece LastNorm(int i) const {
    if (i == 0) return {std::string(names_.embedding_norm), "token_embd_norm"};
    return {StrCat(names_.layers, i - 1, ".", names_.mlp_norm),
            StrCat("blk.", i - 1, ".layer_output_norm")};
  }

  static void Stack(ParamSpec& spec, const std::string& stacked, std::string_view suffix) {
    if (!stacked.empty()) spec.gguf.push_back({{StrCat(stacked, suffix), spec.rows}});
  }

  ParamSpec& Add(std::string_view name, ParamRole role, const Pieces& pieces, int64_t columns,
                 std::string_view suffix) {
    ParamSpec& spec = specs_.emplace_back();
    spec.name = name;
    spec.role = role;
    spec.columns = columns;
    for (const std::string_view prefix : kPrefixes) {
      weights::SourceList& list = spec.hugging_face.emplace_back();
      for (const Piece& piece : pieces)
        list.push_back({StrCat(prefix, piece.hugging_face, suffix), piece.rows});
    }
    weights::SourceList& list = spec.gguf.emplace_back();
    for (const Piece& piece : pieces) {
      spec.rows += piece.rows;
      list.push_back({StrCat(piece.gguf, suffix), piece.rows});
    }
    return spec;
  }

  const files::ModelConfig& config_;
  const files::ArchitectureInfo& info_;
  const Names& names_;
  std::vector<ParamSpec> specs_;
};

}  // namespace

std::vector<ParamSpec> EncoderParams(const files::ModelConfig& config) {
  ParamList list(config);
  list.Tables();
  for (int i = 0; i < config.num_layers; ++i) list.Layer(i);
  list.FinalNorm();
  return list.Take();
}

}  // namespace sluice::model::layers
