#include "model/layers/decoder_params.h"
#include "model/registry.h"

namespace sluice::model {

std::vector<weights::ParamSpec> MistralParams(const files::ModelConfig& config) {
  return layers::PreNormParams(config);
}

}  // namespace sluice::model
