#include "model/layers/encoder_params.h"

#include <string>
#include <string_view>
#include <utility>

#include "base/str_cat.h"
#include "files/architectures.h"

namespace sluice::model::layers {
namespace {

using weights::ParamRole;
using weights::ParamSpec;

// Where a Hugging Face checkpoint may keep the encoder: alone, or within a model that has a head.
constexpr std::string_view kPrefixes[] = {"", "bert.", "roberta."};

// Collects the ParamSpecs in the spelling of BERT's checkpoints and of GGUF; names given here are
// ours.
class ParamList {
 public:
  struct Piece {
    std::string hugging_face, gguf;  // without ".weight" or ".bias"
    int64_t rows = 0;
  };
  using Pieces = std::vector<Piece>;

  explicit ParamList(const files::ModelConfig& config) : config_(config) {}

  void Table(std::string_view name, std::string_view hugging_face, std::string_view gguf,
             int64_t rows) {
    Add(name, ParamRole::kEmbedding,
        {{StrCat("embeddings.", hugging_face), std::string(gguf), rows}}, config_.hidden_size,
        ".weight");
  }

  void Norm(std::string_view name, std::string hugging_face, std::string gguf) {
    const Pieces pieces = {{std::move(hugging_face), std::move(gguf), config_.hidden_size}};
    Add(name, ParamRole::kNorm, pieces, 0, ".weight");
    Add(StrCat(name, "_bias"), ParamRole::kNorm, pieces, 0, ".bias");
  }

  // A matrix that a product is taken with, and its bias.
  void Matrix(std::string_view name, const Pieces& pieces, int64_t columns, bool residual) {
    ParamSpec& spec = Add(name, ParamRole::kLinear, pieces, columns, ".weight");
    spec.bias = true;
    spec.residual = residual;
    Add(StrCat(name, "_bias"), ParamRole::kBias, pieces, 0, ".bias");
  }

  // Layer `i`, with the norm of the layer before it, or of the embeddings, which it reads first.
  void Layer(int i) {
    const std::string name = StrCat("layers.", i, ".");
    const std::string hf = StrCat("encoder.layer.", i, "."), gguf = StrCat("blk.", i, ".");
    const int64_t hidden = config_.hidden_size, inner = config_.intermediate_size;
    Norm(name + "input_norm", LastNorm(i).hugging_face, LastNorm(i).gguf);
    Matrix(name + "attention.qkv",
           {{hf + "attention.self.query", gguf + "attn_q", hidden},
            {hf + "attention.self.key", gguf + "attn_k", hidden},
            {hf + "attention.self.value", gguf + "attn_v", hidden}},
           hidden, false);
    Matrix(name + "attention.output",
           {{hf + "attention.output.dense", gguf + "attn_output", hidden}}, hidden, true);
    Norm(name + "mlp_norm", hf + "attention.output.LayerNorm", gguf + "attn_output_norm");
    Matrix(name + "mlp.up", {{hf + "intermediate.dense", gguf + "ffn_up", inner}}, hidden, false);
    Matrix(name + "mlp.down", {{hf + "output.dense", gguf + "ffn_down", hidden}}, inner, true);
  }

  // Of a model that classifies: BERT's pooler and classifier, or RoBERTa's classifier.
  void Head() {
    const int64_t labels = static_cast<int64_t>(config_.labels.size());
    if (labels == 0) return;
    const bool bert = config_.architecture == files::Architecture::kBert;
    Matrix("head.dense", {{bert ? "pooler.dense" : "classifier.dense", "", config_.hidden_size}},
           config_.hidden_size, false);
    Matrix("head.labels", {{bert ? "classifier" : "classifier.out_proj", "", labels}},
           config_.hidden_size, false);
    specs_[specs_.size() - 2].f32_out = true;
  }

  void FinalNorm() {
    const Piece last = LastNorm(config_.num_layers);
    Norm("final_norm", last.hugging_face, last.gguf);
  }

  std::vector<ParamSpec> Take() {
    // As in decoder_params.cc.
    if (files::InfoOf(config_.architecture).gguf_name.empty()) {
      for (ParamSpec& spec : specs_) spec.gguf.clear();
    }
    return std::move(specs_);
  }

 private:
  // The norm that stands before layer `i`.
  static Piece LastNorm(int i) {
    if (i == 0) return {"embeddings.LayerNorm", "token_embd_norm"};
    return {StrCat("encoder.layer.", i - 1, ".output.LayerNorm"),
            StrCat("blk.", i - 1, ".layer_output_norm")};
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
  std::vector<ParamSpec> specs_;
};

}  // namespace

std::vector<ParamSpec> EncoderParams(const files::ModelConfig& config) {
  ParamList list(config);
  list.Table("embedding", "word_embeddings", "token_embd", config.vocab_size);
  list.Table("position_embedding", "position_embeddings", "position_embd", config.position_rows);
  list.Table("type_embedding", "token_type_embeddings", "token_types", config.token_types);
  for (int i = 0; i < config.num_layers; ++i) list.Layer(i);
  list.FinalNorm();
  list.Head();
  return list.Take();
}

}  // namespace sluice::model::layers
