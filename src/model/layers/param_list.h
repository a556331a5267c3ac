// The parameters of a decoder, one call for each thing that it has. Used while a model is planned.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "files/architectures.h"
#include "files/eagle_files.h"
#include "files/model_config.h"
#include "weights/manifest.h"

namespace sluice::model::layers {

// Collects the ParamSpecs in the spelling that Hugging Face checkpoints and GGUF files share, one
// call for each thing that a decoder has; names given here are ours. Where architectures differ in
// spelling, their row in files/architectures.cc says so.
class ParamList {
 public:
  explicit ParamList(const files::ModelConfig& config);
  // Of a head of EAGLE's form, which stands alone in its checkpoint.
  explicit ParamList(const files::EagleConfig& eagle);

  void Embedding();

  // "position_embedding", what is added to the embedding of each token, and the norm of the sum,
  // where the config has them.
  void EmbeddingParts();

  // "layer_inputs.embedding", "layer_inputs.projection" and "layer_inputs.norm", of what every
  // layer is given of a token, and of each layer "layer_input.gate", "layer_input.output" and
  // "layer_input_post_norm", where the config has them.
  void LayerInputs();
  void LayerInput(int i);

  // Of a model of several residual streams: "streams.begin", from the embedding to those behind the
  // first, and "streams.end.1" and so on, from each of these to what their mean is of.
  void Streams();

  // Of its layers: "altup.router_norm", "altup.router", "altup.predict", "altup.correct" and, where
  // the config has it, "altup.scale"; "laurel.left", "laurel.right" and "laurel.post_norm".
  void AltUp(int i);

  // The output matrix: the embedding itself where the checkpoint ties them, unless it is cut.
  void Output();

  // What stands behind the pooling of a model that embeds.
  void Pooling();

  // Logits are scaled by scaling what the output matrix reads.
  void FinalNorm();

  // A norm of the hidden state in layer `i`, with its bias where the architecture's have one.
  void Norm(int i, std::string_view name, std::string_view hugging_face, std::string_view gguf);

  // That norm again, its weights times `factor`; nothing where this is 0.
  void KeptNorm(int i, std::string_view name, std::string_view hugging_face, float factor);

  // "attention.qkv", of which V's rows may be K's once more, the gate's rows behind V's where
  // attention has one, with its biases and Q/K norms where the config has them. `columns`: of what
  // it reads.
  void Qkv(int i, int64_t columns);

  void AttentionOutput(int i);

  // "scale", of what the layer leaves in the residual stream, where the architecture has it.
  void LayerScale(int i);

  // "indexer.q", which reads the queries' latent, "indexer.k" with its norm's weight and bias, and
  // "indexer.weights" of the heads.
  void Indexer(int i);

  // "attention.q_a" and its norm where queries go through a latent of their own;
  // "attention.q_nope", "attention.q_rope" and "attention.absorb", which leads the first into the
  // latent space, by head; "attention.kv", rows of the rotated part, then of the latent, with the
  // latent's norm; "attention.values", out of the latent space by head; "attention.output".
  // With an indexer also its parameters (Indexer).
  void LatentAttention(int i);

  // "linear.in", rows of queries, keys, values, gate, b, a; "linear.conv", "linear.dt_bias",
  // "linear.a_log", "linear.norm" and "linear.output".
  void GatedDeltaNet(int i);

  // "conv.in", rows of the gate on what goes in, of that on what comes out, and of the input;
  // "conv.taps" and "conv.output", with biases where the config has them.
  void GatedConv(int i);

  // "mamba.in", rows of the gate, of values, keys and queries, and of step sizes; "mamba.taps",
  // "mamba.dt_bias", "mamba.a", "mamba.skip", "mamba.norm" and "mamba.output", with biases where
  // the config has them.
  void Mamba(int i);

  // Of Mamba's first form: "mamba.in", rows of the values and of the gate, "mamba.taps",
  // "mamba.scan_in", rows of the latent of step sizes, of B and C, with their norms where the
  // config has weights of such, "mamba.steps", "mamba.dt_bias", "mamba.a", "mamba.skip" and
  // "mamba.output", with biases where the config has them.
  void FirstMamba(int i);

  // "lightning.in", rows of values, keys, queries and gate; "lightning.norm" and
  // "lightning.output".
  void LightningAttention(int i);

  // "mlp.gate_up", gate rows, then up rows; "mlp.up" where there is no gate; "mlp.down".
  void Mlp(int i);

  // "join": from the normed hidden state, then the normed embedding, to the head's residual stream.
  void Join(int i);

  // "fc": from what a head of EAGLE's form reads, side by side, to its residual stream.
  void JoinRead(int64_t columns, bool bias);
  // A norm as wide as hidden states whose tensor the config names; without a name nothing.
  void NamedNorm(const char* name, const std::string& tensor);

  // "joined_norm": of what that product gives, where the layers read it alone.
  void JoinedNorm();

  // "read_norm.0" and so on: so many norms of what a head of EAGLE's form reads, side by side.
  void ReadNorms(int64_t columns, int norms);

  // "mask_hidden": what a head of the parallel form reads where the model has given nothing yet.
  void MaskHidden(int64_t columns);

  // The output matrix of some tokens of the vocabulary.
  void OutputOf(int64_t tokens);

  // "experts.router", "experts.score_bias" where scores have one and "experts.scales" where weights
  // have some; the norms of experts beside a dense part and of this; "experts.gate_up", of each
  // expert its gate rows, then its up rows, or "experts.up" where there is no gate; and
  // "experts.down".
  void Experts(int i);

  // "shared.gate_up" or "shared.up", "shared.down" and, where the expert that every token takes has
  // one, "shared.gate".
  void SharedExpert(int i);

  // What is added from here on belongs to the feed-forward part of its layer, or to its mixer,
  // which a checkpoint may have as layers of their own.
  void InMlp(bool in_mlp) { in_mlp_ = in_mlp; }

  std::vector<weights::ParamSpec> Take();

 private:
  // Where a Hugging Face checkpoint may keep the decoder and the output matrix.
  struct Prefix {
    std::string decoder;  // "model."
    std::string output;
    std::string first_layer = {};  // of a head: what its first layer is called; empty: as others
  };
  struct Piece {
    std::string hugging_face, gguf;  // within the layer, without ".weight" or ".bias"
    int64_t rows = 0;
    weights::RowPick pick = {};
  };
  using Pieces = std::vector<Piece>;
  static Piece Of(std::string_view hugging_face, std::string_view gguf, int64_t rows) {
    return {std::string(hugging_face), std::string(gguf), rows};
  }

  // Of a head that guesses tokens: as the model's own layers are where they don't say.
  files::LayerConfig LayerOf(int i) const;

  Pieces QkvPieces(files::QkvLayout layout, const files::LayerConfig& layer) const;

  // Adds what stands outside the layers.
  weights::ParamSpec& AddTop(const char* name, weights::ParamRole role, int64_t rows,
                             int64_t columns, std::string Prefix::*prefix,
                             const std::string& hugging_face, const char* gguf);

  // What a Hugging Face checkpoint calls layer `i`; behind the last one come the heads.
  std::string CheckpointLayer(int i) const;

  // The same of a GGUF file.
  std::string GgufLayer(int i) const;

  // Its index there.
  int StoredLayer(int i) const;

  // Adds a matrix or vector of layer `i` made of `pieces`.
  weights::ParamSpec& Add(int i, std::string_view name, weights::ParamRole role,
                          const Pieces& pieces, int64_t columns, std::string_view suffix);

  // The last matrix, without bias, is in GGUF two of `width` rows each.
  void GateUpApart(int i, const char* gate, const char* up, int64_t width);

  void AddNorm(int i, std::string_view name, const Pieces& pieces);

  // Adds a matrix that a product is taken with, and its bias where it has one.
  weights::ParamSpec& Matrix(int i, std::string_view name, const Pieces& pieces, int64_t columns,
                             bool bias, bool residual = false);

  // Queries, keys, values, gate, b and a of matrices in which the rows of each key head lie
  // together.
  static Pieces InterleavedByKeyHead(const files::LinearAttentionConfig& linear);

  // Adds matrices of each head, whose rows `pick` has of a tensor's groups, which are heads.
  weights::ParamSpec& AddHeads(int i, std::string_view name, const std::string& hugging_face,
                               const weights::RowPick& pick, int64_t columns, int64_t x_step,
                               int64_t out_step);

  // Adds matrices of all experts of layer `i`. A Hugging Face checkpoint has each expert's `pieces`
  // apart, or all of them in the tensor `stacked`; GGUF has one tensor of all experts for each
  // piece.
  weights::ParamSpec& AddExperts(int i, std::string_view name, std::string_view stacked,
                                 const Pieces& pieces, int64_t columns);

  // The biases of AddExperts' products, all experts' in the tensor `stacked` + "_bias".
  void AddExpertBias(int i, std::string_view name, std::string_view stacked, const Pieces& pieces);

  // Adds a parameter that each expert of layer `i` has `rows` of; its sources are to come.
  weights::ParamSpec& AddOfExperts(int i, std::string_view name, weights::ParamRole role,
                                   int64_t rows);

  // Expert `e`'s `count` rows of a tensor that has all experts'.
  weights::ParamSource RowsOfExpert(const std::string& tensor, int64_t e, int64_t count) const;

  // Expert `e`'s pieces of a tensor that has all of them, one piece behind the other or, row by
  // row, in turns. `columns`: of the rows, where they lie as columns; else 0.
  void AddStacked(const std::string& tensor, int64_t e, const Pieces& pieces, int64_t columns,
                  weights::SourceList* list) const;

  const files::ModelConfig& config_;
  const files::ArchitectureInfo& info_;
  const files::HfTensors& names_;
  std::vector<Prefix> prefixes_;  // in order of preference
  bool in_mlp_ = false;
  std::vector<weights::ParamSpec> specs_;
};

}  // namespace sluice::model::layers
