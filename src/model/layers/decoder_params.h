// The parameters of a decoder, as decoder.h runs it.
#pragma once

#include <vector>

#include "files/model_config.h"
#include "weights/manifest.h"

namespace sluice::model::layers {

std::vector<weights::ParamSpec> DecoderParams(const files::ModelConfig& config);

}  // namespace sluice::model::layers
