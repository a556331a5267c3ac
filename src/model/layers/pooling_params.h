// The parameters of what stands behind a pooling (pooling.h): dense layers, a classifier's head, or
// the rows of the output matrix for two answers.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "files/model_config.h"
#include "weights/manifest.h"

namespace sluice::model::layers {

// `prefixes`: what may stand before names of a Hugging Face checkpoint, in order of preference.
// REQUIRES: config.pooling.
void AddPoolingParams(const files::ModelConfig& config, std::span<const std::string_view> prefixes,
                      std::vector<weights::ParamSpec>* specs);

}  // namespace sluice::model::layers
