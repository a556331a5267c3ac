// A model as the user names it: a .gguf file (of several parts, the first), a Hugging Face
// folder (config.json, generation_config.json, tokenizer.json, tokenizer_config.json, *.safetensors
// with or without index, and sentence-transformers' files of a model that embeds), or one without
// files (synthetic_model.h).
#pragma once

#include <memory>
#include <string>

#include "files/model_config.h"
#include "files/tensor_source.h"
#include "files/tokenizer_data.h"

namespace sluice::files {

struct ModelFiles {
  std::string path;
  bool is_gguf = false;
  ModelConfig config;
  GenerationDefaults generation_defaults;
  TokenizerData tokenizer;
  std::string chat_template;  // Jinja text; empty if the model has none
  std::shared_ptr<const TensorSource> tensors;
};

// Opens and checks everything. kNotFound names the path that was tried; kBadModel says what is
// wrong.
Result<ModelFiles> OpenModel(const std::string& path);
// Only what is needed to tokenize and to render: `path` may also be a vocabulary-only GGUF, a
// tokenizer.json, or (for the template) a .jinja file. `tensors` and `config` may be empty.
Result<ModelFiles> OpenText(const std::string& path);
// What clients call it unless told otherwise: the name of its file or folder, without a part's
// numbers.
std::string ModelName(const ModelFiles& model);
// Resolves a name of the model cache (SLUICE_CACHE, else XDG_CACHE_HOME/sluice, else
// ~/.cache/sluice) to a path; a path to
// itself.
Result<std::string> ResolveModel(const std::string& name_or_path);

}  // namespace sluice::files
