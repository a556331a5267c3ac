// A head of EAGLE's form (Li et al., 2024 and 2025) or DFlash's, which guesses tokens beside a
// model that it was trained for: a folder of config.json and of safetensors or pytorch_model.bin,
// spelled as SafeAILab and SpecForge write and vLLM and SGLang read it, or as vLLM's library
// speculators writes it. Everything is checked when it is opened. Plain values; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "files/model_config.h"
#include "files/tensor_source.h"

namespace sluice::files {

// What a head reads, and what it is made of.
enum class EagleForm : uint8_t {
  // EAGLE's and EAGLE-2's, which differ in how drafts are searched and not in their files: what the
  // model's final norm gave, beside the embedding of the token behind it, joined by one product;
  // then layers of Llama's form, the first without a norm before its attention. The output matrix
  // is the model's, and no norm stands before it. Some add norms (EagleConfig::AddedNorms).
  kFirst,
  // EAGLE-3's: what some layers of the model gave, three as a rule, joined by one product, beside
  // the embedding,
  // both normed, in the first layer; a final norm and an output matrix of its own.
  kThird,
  // Parallel EAGLE's (P-EAGLE, Li et al., arXiv 2602.01469): as EAGLE-3's, but all tokens behind
  // the first guess come from one pass. There a learned vector stands for what the model has not
  // given yet, and the mask token for tokens that are not drawn yet.
  kParallel,
  // DFlash's (block diffusion, Chen et al., arXiv 2602.06036): layers of Qwen3's form pass once
  // over a block, which is the token that was drawn last and mask tokens behind it, and its tokens
  // see one another in both directions. What stands before the block, the layers see as K and V of
  // what some layers of the model gave, joined by one product and normed; it goes through none of
  // them. Embedding and output matrix are the model's.
  kDiffusion,
};

// Whether it reads what several layers of the model gave.
inline bool ReadsLayers(EagleForm form) { return form != EagleForm::kFirst; }
// Whether its guesses come from the model's output matrix.
inline bool UsesModelsOutput(EagleForm form) {
  return form == EagleForm::kFirst || form == EagleForm::kDiffusion;
}

// How many layers of the model a head of the third form reads unless its file names them, and how
// many it may.
inline constexpr int kEagleLayers = 3;
inline constexpr size_t kHeadLayersMax = 64;

// Norms that some heads of the first form have and others lack: the names of their tensors in the
// file, each empty where there is none.
struct AddedNorms {
  std::string embedding;    // of the embedding, before it is joined
  std::string states;       // of what the head reads, before it is joined
  std::string first_layer;  // before the attention of the first layer
  std::string output;       // before the output matrix; the head itself reads what it gave unnormed
};

struct EagleConfig {
  EagleForm form = EagleForm::kThird;
  // Of its layers, as of a model that has them. The vocabulary is that of the tokens that it reads,
  // which is the model's.
  ModelConfig layer;
  int target_hidden_size = 0;  // of the model's hidden states
  int draft_vocab_size = 0;    // of the tokens that it guesses
  // By guess its id in the model's vocabulary, each another ("d2t"); empty: ids are the same.
  std::vector<int32_t> target_ids;
  // Of the model, whose outputs it reads, ascending; empty: the file does not say.
  std::vector<int> hidden_layers;
  int layers_read = kEagleLayers;  // how many, of one that reads layers
  bool own_embedding = false;      // else the model's
  bool join_bias = false;          // of the product that joins what it reads
  // Of one that reads layers: its residual stream begins with the normed states, not with these as
  // they were joined.
  bool norm_before_residual = false;
  // Of such a one, too. What the layers gave is normed before it is joined, by one norm over all or
  // by one for each; and what the head gave, before it reads that.
  bool norm_before_join = false, norm_each_before_join = false, norm_output = false;
  AddedNorms added_norms;  // of the first form
  int mask_token = 0;      // of forms with blocks, an id of the vocabulary
  int block_tokens = 0;    // that one of these guesses at once; 0: it does not say

  int read_norms() const { return norm_before_join ? 1 : norm_each_before_join ? layers_read : 0; }
  // Numbers that it reads of the model for each token.
  int64_t read_width() const {
    return int64_t{ReadsLayers(form) ? layers_read : 1} * target_hidden_size;
  }
};

struct EagleFiles {
  std::string path;
  EagleConfig config;
  std::shared_ptr<const TensorSource> tensors;
};

// Whether `path` is a folder whose config.json names a head, or Llama where its tensors are a
// head's. Whatever else may be wrong with it is OpenEagle's to tell.
bool IsEagle(const std::string& path);

// kNotFound names the path that was tried; kBadModel says what is wrong.
Result<EagleFiles> OpenEagle(const std::string& path);
// The same of a config.json and tensors that are there already; `path` names them.
Result<EagleFiles> ReadEagle(std::string path, Json config,
                             std::shared_ptr<const TensorSource> tensors);

}  // namespace sluice::files
