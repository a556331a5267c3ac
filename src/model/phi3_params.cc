#include "model/layers/decoder_params.h"
#include "model/registry.h"

namespace sluice::model {

std::vector<weights::ParamSpec> Phi3Params(const files::ModelConfig& config) {
  return layers::PreNormParams(config, /*fused=*/true);
}

}  // namespace sluice::model
