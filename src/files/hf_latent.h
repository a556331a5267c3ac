// Latent attention (LatentConfig) as config.json has it, for hf_config.cc.
#pragma once

#include "files/json_fields.h"
#include "files/model_config.h"

namespace sluice::files {

// Reads the sizes, and what follows from them for heads. Errors name the key.
Status ReadHfLatent(const JsonFields& fields, ModelConfig* config);
// What they mean for RoPE and the scale of scores, which have been read.
Status FinishHfLatent(const JsonFields& fields, ModelConfig* config);

// Which layers see what the indexer of another one has chosen. REQUIRES: `config` has the layers.
Status ReadHfReusedPositions(const JsonFields& fields, ModelConfig* config);

}  // namespace sluice::files
