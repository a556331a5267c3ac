// Builds the ParamSpecs of a dense decoder in the spelling that Hugging Face checkpoints and GGUF
// files share, one call for each thing that it has; names given here are ours. Where architectures
// differ in spelling, their row in files/architectures.cc says so.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "files/architectures.h"
#include "weights/manifest.h"

namespace sluice::model::layers {

class ParamList {
 public:
  explicit ParamList(const files::ModelConfig& config);

  void Embedding();
  // The output matrix: the embedding itself where the checkpoint ties them.
  void Output();
  void FinalNorm();
  // A norm of the hidden state in layer `i`, with its bias where the architecture's have one.
  void Norm(int i, std::string_view name, std::string_view hugging_face, std::string_view gguf);

  // "attention.qkv", the gate's rows behind V's where attention has one, with its biases and Q/K
  // norms where the config has them.
  void Qkv(int i);
  void AttentionOutput(int i);
  // "linear.in", rows of queries, keys, values, gate, b, a; "linear.conv", "linear.dt_bias",
  // "linear.a_log", "linear.norm" and "linear.output".
  void GatedDeltaNet(int i);
  // "mlp.gate_up": gate rows, then up rows.
  void GateUp(int i);
  void Down(int i);

  std::vector<weights::ParamSpec> Take();

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
  // Adds a matrix or vector of layer `i` made of `pieces`.
  weights::ParamSpec& Add(int i, std::string_view name, weights::ParamRole role,
                          const std::vector<Piece>& pieces, int64_t columns,
                          std::string_view suffix);

  const files::ModelConfig& config_;
  const files::ArchitectureInfo& info_;
  std::vector<Prefix> prefixes_;  // in order of preference
  std::vector<weights::ParamSpec> specs_;
};

}  // namespace sluice::model::layers
