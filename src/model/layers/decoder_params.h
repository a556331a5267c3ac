// The parameters of a decoder, as decoder.h runs it.
#pragma once

#include <vector>

#include "files/eagle_files.h"
#include "files/model_config.h"
#include "weights/manifest.h"

namespace sluice::model::layers {

// With `mtp_head` also those of mtp_head.h, as of a layer behind the last.
std::vector<weights::ParamSpec> DecoderParams(const files::ModelConfig& config, bool mtp_head);

// The parameters of a head of EAGLE-3's form, as model/eagle_head.h runs it.
std::vector<weights::ParamSpec> EagleParams(const files::EagleConfig& config);

}  // namespace sluice::model::layers
