// A head of EAGLE-3's form (Li et al., 2025), which guesses tokens beside a model that it was
// trained for: a folder of config.json and safetensors, spelled as SpecForge writes and SGLang
// reads it. Everything is checked when it is opened. Plain values; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "files/model_config.h"
#include "files/tensor_source.h"

namespace sluice::files {

// How many layers of the model a head reads.
inline constexpr int kEagleLayers = 3;

struct EagleConfig {
  // Of the decoder layer, as of a model without layers of its own whose head it is: num_layers is
  // 0. The vocabulary is that of the tokens that it reads, which is the model's.
  ModelConfig layer;
  int target_hidden_size = 0;  // of the model's hidden states
  int draft_vocab_size = 0;    // of the tokens that it guesses
  // By guess its id in the model's vocabulary, each another ("d2t"); empty: ids are the same.
  std::vector<int32_t> target_ids;
  // Of the model, whose outputs it reads, ascending; empty: the file does not say.
  std::vector<int> hidden_layers;
  bool own_embedding = false;  // else the model's
};

struct EagleFiles {
  std::string path;
  EagleConfig config;
  std::shared_ptr<const TensorSource> tensors;
};

// Whether `path` is a folder whose config.json names a head of this form. Whatever else may be
// wrong with it is OpenEagle's to tell.
bool IsEagle(const std::string& path);

// kNotFound names the path that was tried; kBadModel says what is wrong.
Result<EagleFiles> OpenEagle(const std::string& path);

}  // namespace sluice::files
