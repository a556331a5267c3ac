// The parameters of the two families of dense decoders, as dense_decoder.h runs them.
#pragma once

#include <vector>

#include "model/layers/param_list.h"

namespace sluice::model::layers {

// One norm before each block.
std::vector<weights::ParamSpec> PreNormParams(const files::ModelConfig& config);

// A norm before and after each block.
std::vector<weights::ParamSpec> SandwichNormParams(const files::ModelConfig& config);

}  // namespace sluice::model::layers
