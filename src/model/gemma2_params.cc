#include "model/layers/decoder_params.h"
#include "model/registry.h"

namespace sluice::model {

std::vector<weights::ParamSpec> Gemma2Params(const files::ModelConfig& config) {
  return layers::SandwichNormParams(config);
}

}  // namespace sluice::model
