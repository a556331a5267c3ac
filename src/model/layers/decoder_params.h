// The parameters of a decoder, as decoder.h runs it.
#pragma once

#include <vector>

#include "files/eagle_files.h"
#include "files/model_config.h"
#include "weights/manifest.h"

namespace sluice::model::layers {

// Whether blocks add what they give to the residual stream themselves; else the norm behind one
// does.
bool BlocksAdd(const files::ModelConfig& config);

// With `mtp_heads` also those of so many of mtp_head.h, as of layers behind the last.
std::vector<weights::ParamSpec> DecoderParams(const files::ModelConfig& config, int mtp_heads);

// The parameters of a head of EAGLE's form, as model/eagle/eagle_head.h runs it.
std::vector<weights::ParamSpec> EagleParams(const files::EagleConfig& config);

}  // namespace sluice::model::layers
