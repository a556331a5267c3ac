// The parameters of an encoder, as decoder.h runs it: those of a decoder by other names, with
// tables of positions and token types, and without an output matrix.
#pragma once

#include <vector>

#include "files/model_config.h"
#include "weights/manifest.h"

namespace sluice::model::layers {

std::vector<weights::ParamSpec> EncoderParams(const files::ModelConfig& config);

}  // namespace sluice::model::layers
