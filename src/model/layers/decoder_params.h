// The parameters of the two families of dense decoders, as dense_decoder.h runs them.
#pragma once

#include <vector>

#include "model/layers/param_list.h"

namespace sluice::model::layers {

// One norm before each block. `fused`: Q, K and V are one tensor in the files, gate and up another.
std::vector<weights::ParamSpec> PreNormParams(const files::ModelConfig& config, bool fused = false);

// A norm before and after each block, stored as weight - 1 in Hugging Face checkpoints.
// `prefixes`: as ParamList takes them.
std::vector<weights::ParamSpec> SandwichNormParams(const files::ModelConfig& config,
                                                   std::vector<ParamList::Prefix> prefixes = {
                                                       {"model.", ""}});

}  // namespace sluice::model::layers
