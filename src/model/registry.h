// What model/ has for every name in SLUICE_ARCHITECTURES (files/model_config.h): <name>Params in
// model/<arch>_params.cc and Make<name> in model/<arch>.cc.
#pragma once

#include <memory>
#include <vector>

#include "model/model.h"
#include "weights/manifest.h"

namespace sluice::model {

#define SLUICE_DECLARE_MODEL(name)                                                \
  std::vector<weights::ParamSpec> name##Params(const files::ModelConfig& config); \
  Result<std::unique_ptr<Model>> Make##name(ModelParts parts);
SLUICE_ARCHITECTURES(SLUICE_DECLARE_MODEL)
#undef SLUICE_DECLARE_MODEL

// What the files of this model must hold.
std::vector<weights::ParamSpec> Params(const files::ModelConfig& config);

}  // namespace sluice::model
