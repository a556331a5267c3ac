// Every architecture that Sluice runs, one line each: M(files::Architecture value, name) stands for
// <name>Params in model/<arch>_params.cc and Make<name> in model/<arch>.cc.
#pragma once

#include <memory>
#include <vector>

#include "model/model.h"
#include "weights/manifest.h"

#define SLUICE_MODELS(M) \
  M(kLlama, Llama)       \
  M(kMistral, Mistral)   \
  M(kQwen2, Qwen2)       \
  M(kQwen3, Qwen3)       \
  M(kGemma2, Gemma2)     \
  M(kGemma3, Gemma3)     \
  M(kPhi3, Phi3)         \
  M(kSmolLM3, SmolLM3)

namespace sluice::model {

#define SLUICE_DECLARE_MODEL(architecture, name)                                  \
  std::vector<weights::ParamSpec> name##Params(const files::ModelConfig& config); \
  Result<std::unique_ptr<Model>> Make##name(ModelParts parts);
SLUICE_MODELS(SLUICE_DECLARE_MODEL)
#undef SLUICE_DECLARE_MODEL

// What the files of this model must hold.
std::vector<weights::ParamSpec> Params(const files::ModelConfig& config);

}  // namespace sluice::model
